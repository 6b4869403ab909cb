// cspell:ignore chatkit evals generatecontent Ollama rerank reranking
import { nearest } from "../../core/fault.ts";
import type { Refusal } from "../../core/refusals.ts";
import { anthropicPaths, callbackPath, canonicalSegments, isBelow, openAiPaths } from "../../core/task-routes.ts";
import { mayBeForwarded } from "../../request/passthrough.ts";
import { passthrough } from "../../wire/endpoints/passthrough.ts";

/** Largest number of characters of an unknown path that the refusal repeats. */
const shownMax = 100;

/** Largest number of characters of an unknown path that are compared with known paths. */
const comparedMax = 500;

/** Mistakes in a path, each with advice for the client. The first one that applies is stated. */
const mistakes: readonly (readonly [mistake: RegExp, advice: string])[] = [
  [/^[^/]*:/, "Farebox is no forward proxy: state its address as the base URL, not as the proxy."],
  [/\/\//, "Remove the doubled slash from the base URL."],
  [/\/v1\/(?:.*\/)?v1\/messages(?:\/|$)/i, "The base URL of an Anthropic client ends before /v1."],
  [/\/v1\/(?:.*\/)?v1(?:\/|$)/i, "The base URL ends with /v1 only once."],
  [/\\|%(?:2f|5c)/i, "Write each slash as '/', without escapes."],
  [/[^/]\/$/, "Remove the slash at its end."],
  [/\/(?:\.|%2e){1,2}(?:\/|$)/i, "Leave out the segments '.' and '..'."],
  [/[;#]/, "Leave out the part that begins with ';' or '#'."],
  [/%/, "Write it without escapes."],
  [/[A-Z]/, "Write it in lower case."],
];

const endOfBaseUrl = "The base URL of a client ends with /v1";

/** Returns where the base URL of a client of a path ends. */
function endOfBaseUrlFor(path: string): string {
  return isBelow(path, anthropicPaths) ? "The base URL of an Anthropic client ends before /v1" : endOfBaseUrl;
}

const instead = "use POST /v1/chat/completions or POST /v1/responses";

/** Paths of other interfaces, in lower case and without `v1`, each with an explanation. */
const otherInterfaces: readonly (readonly [path: RegExp, explanation: string])[] = [
  [/^(?:\w+\/)?complete$/, "Farebox does not support Anthropic's text completions: use POST /v1/messages."],
  [
    /^v1(?:beta|alpha)\d*\/(?!openai\/)|:\w*generatecontent$/,
    `Farebox speaks OpenAI's interface, not Gemini's: ${instead}.`,
  ],
  [
    /^api\/(?:chat|generate|tags|show|ps|embed|embeddings|version)$/,
    `Farebox speaks OpenAI's interface, not Ollama's: ${instead}.`,
  ],
];

/** Paths that both interfaces have and Farebox does not support, without `v1`, each with the reason. */
const unsupported: readonly (readonly [path: RegExp, why: string])[] = [
  [/^(?:messages\/)?batches(?:\/|$)/, "batches, because their cost is known only after they have ended"],
  [/^files(?:\/|$)/, "files, because they belong to the gateway's account and not to a key"],
];

const whenPassed = "with FAREBOX_PASSTHROUGH=all, Farebox forwards it without a price.";

/** First segments after `/v1` of paths that Farebox only passes through. */
const unpriced: ReadonlySet<string> = new Set(
  (
    "moderations rerank reranking files uploads batches fine_tuning fine-tunes realtime assistants threads " +
    "vector_stores containers conversations evals graders videos organization skills chatkit score classify edits"
  ).split(" "),
);

/** Route of the application. One with `accepts` answers only some of the requests for its path. */
interface ServedPath {
  readonly method: string;
  readonly path: string;
  readonly accepts?: unknown;
}

/** A path that clients may request, with `{id}` for a variable segment. */
interface KnownPath {
  readonly path: string;
  readonly segments: readonly string[];
  readonly methods: readonly string[];
}

/** Explains requests that no route answers. */
export interface PathExplainer {
  /** Refuses a request by its path: with the methods of the path, or like `misspelled`. */
  unanswered(method: string, path: string): Refusal;
  /** Refuses a request by its target without the query: with the cause, or with the path that it probably means. */
  misspelled(method: string, target: string): Refusal;
}

/**
 * Creates the functions that explain why no route answers a request. They only explain: a path that two programs could
 * read differently is never routed.
 */
export function createPathExplainer(routes: readonly ServedPath[]): PathExplainer {
  const known = knownPaths(routes);
  const whole = known.map(({ path }) => path).filter((path) => !path.includes("{"));
  const families = new Set(known.map(({ segments }) => segments[1]));
  const passesOthers = routes.some(({ path }) => path === passthrough.route);
  const notFound = (method: string, target: string, isRouted: boolean): Refusal => ({
    code: "not_found",
    message: explain(method, target.slice(0, comparedMax), isRouted),
  });
  return {
    misspelled: (method, target) => notFound(method, target, false),
    unanswered(method, path) {
      const exact = pathOf(known, path.split("/").slice(1));
      return exact === undefined ? notFound(method, path, true) : { code: "method_not_allowed", allow: exact.methods };
    },
  };

  function explain(method: string, target: string, isRouted: boolean): string {
    const advice = mistakes.find(([mistake]) => mistake.test(target))?.[1];
    const none = `There is no path '${shown(target)}'`;
    const meant = (path: string, why = advice) =>
      `${none}; did you mean '${path}'?${why === undefined ? "" : ` ${why}`}`;
    const segments = canonicalSegments(target.replace(/^[^/]*:\/\/[^/]*/, ""));
    const same = pathOf(known, segments) ?? pathOf(known, ["v1", ...segments]);
    if (same !== undefined) return meant(inWords(same, method), advice ?? `${endOfBaseUrlFor(same.path)}.`);
    const plain = segments.filter((segment) => segment !== "v1");
    const why = unsupported.find(([path]) => path.test(plain.join("/")))?.[1];
    if (why !== undefined && !passesOthers) return `${none} here: Farebox does not support ${why}; ${whenPassed}`;
    const [family = ""] = plain;
    if (!unpriced.has(family) && why === undefined) {
      const other = otherInterfaces.find(([path]) => path.test(plain.join("/")))?.[1];
      if (other !== undefined) return `${none}. ${other}`;
      const isBelowEndpoint = isBelow(target, openAiPaths);
      const inside = isBelowEndpoint ? [] : segments.map((_, from) => segments.slice(from + 1)).slice(-6);
      const inner = inside
        .map((rest) => pathOf(known, rest) ?? pathOf(known, ["v1", ...rest]))
        .find((path) => path !== undefined);
      if (inner !== undefined)
        return meant(
          inWords(inner, method),
          advice ?? `${endOfBaseUrlFor(inner.path)}, without other segments before it.`,
        );
      const [near] = nearest(`/${segments.join("/")}`, whole);
      if (near !== undefined) return meant(near);
      // Farebox's own paths are never forwarded. A mistake in a path that was routed is not the cause if no path is near.
      if (family === "" || !families.has(family) || !mayBeForwarded(method, target))
        return `${none}. ${(isRouted ? undefined : advice) ?? `${endOfBaseUrl}; chat completions are at POST /v1/chat/completions, models at GET /v1/models.`}`;
    }
    return passesOthers
      ? meant(`/v1/${shown(plain.join("/"))}`)
      : `${none} here, because Farebox has no price for it; ${whenPassed}`;
  }
}

/** Returns the paths of the routes that clients request, each with its methods. */
function knownPaths(routes: readonly ServedPath[]): readonly KnownPath[] {
  const methods = new Map<string, string[]>();
  for (const { path: pattern, method, accepts } of routes) {
    if (accepts !== undefined || method === "all" || pattern.includes("*")) continue;
    const path = pattern.replace(/:\w+/g, "{id}");
    if (isBelow(path, ["/admin", callbackPath])) continue;
    methods.set(path, [...(methods.get(path) ?? []), method.toUpperCase()]);
  }
  return [...methods].map(([path, each]) => ({ path, segments: path.split("/").slice(1), methods: each }));
}

/** Returns the known path with these segments; undefined if there is none. */
function pathOf(known: readonly KnownPath[], segments: readonly string[]): KnownPath | undefined {
  return known.find(
    (path) =>
      path.segments.length === segments.length &&
      path.segments.every((each, index) => each === segments[index] || (each === "{id}" && segments[index] !== "")),
  );
}

/** Returns a path, with its method if the request has another one. */
function inWords({ path, methods }: KnownPath, method: string): string {
  const [first = ""] = methods;
  return methods.includes(method === "HEAD" ? "GET" : method) ? path : `${first} ${path}`;
}

/** Returns the beginning of a path from a client, in visible ASCII. */
function shown(path: string): string {
  const text = path.slice(0, shownMax).replace(/[^!-~]/g, "?");
  return path.length > shownMax ? `${text}…` : text;
}
