/** Kinds of routes that a price file can add to the fixed paths. */
export const routeKinds = ["create", "retrieve", "cancel", "list", "upload", "setting"] as const;
export type RouteKind = (typeof routeKinds)[number];

export const routeMethods = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
export type RouteMethod = (typeof routeMethods)[number];

/**
 * Source of a name in a creation request: a field of the body, or a fixed name that the price file states. Both are
 * null if there is no source.
 */
export interface NameSource {
  readonly field: string | null;
  readonly fixed: string | null;
}

/** One route of a price file. It is plain data, because it is sent between threads and processes. */
export interface TaskRoute {
  readonly method: RouteMethod;
  /**
   * Path as written in the price file: "/api/luma/v1/video/{task_id}/extend". Charges and metrics use it as the
   * route's name.
   */
  readonly path: string;
  readonly does: RouteKind;
  readonly model: NameSource;
  readonly type: NameSource;
  /** Body field that contains the fields named by a price's `field`; null for the body itself. */
  readonly input: string | null;
  /** Field of the body or of the query that names the requested tasks; null if the path names the task. */
  readonly taskField: string | null;
  /** Names of the keys that may use the route; null for all. */
  readonly keys: readonly string[] | null;
}

export type RouteMatch =
  | {
      readonly kind: "route";
      readonly route: TaskRoute;
      /** Segment of the path at `{task_id}`, as received; null if the path has none. */
      readonly taskId: string | null;
    }
  /** The path or the method differs from the route's, but a gateway might still accept the request as that route. */
  | { readonly kind: "misspelled"; readonly route: TaskRoute };

const variable = "{task_id}";

export function hasTaskId(path: string): boolean {
  return path.split("/").includes(variable);
}

/** Returns the route that a request matches, or the first one that it misspells; undefined if there is neither. */
export function matchRoute(routes: readonly TaskRoute[], method: string, path: string): RouteMatch | undefined {
  const received = path.split("/").slice(1);
  const canonical = canonicalSegments(path);
  let misspelled: TaskRoute | undefined;
  for (const route of routes) {
    const pattern = route.path.split("/").slice(1);
    if (!matches(pattern.map(canonicalSegment), canonical)) continue;
    if (route.method === method && matches(pattern, received)) {
      const at = pattern.indexOf(variable);
      return { kind: "route", route, taskId: at === -1 ? null : (received[at] ?? null) };
    }
    misspelled ??= route;
  }
  return misspelled && { kind: "misspelled", route: misspelled };
}

function matches(pattern: readonly string[], segments: readonly string[]): boolean {
  return (
    pattern.length === segments.length &&
    pattern.every((segment, index) => segment === segments[index] || (segment === variable && segments[index] !== ""))
  );
}

/** Returns true if at least one path matches both patterns. */
export function pathsOverlap(one: string, other: string): boolean {
  const [a, b] = [canonicalSegments(one), canonicalSegments(other)];
  return (
    a.length === b.length &&
    a.every((segment, index) => segment === b[index] || segment === variable || b[index] === variable)
  );
}

/** Largest number of levels of nested escapes that are decoded. */
const decodingsMax = 4;

/**
 * Returns the segments of a path in canonical form. Normalizes everything that a lenient gateway may ignore: letter
 * case, escapes, doubled and trailing slashes, dot segments, parameters after a semicolon, and white space. Paths with
 * different segments are different for every gateway.
 */
export function canonicalSegments(path: string): string[] {
  let text = path;
  for (let round = 0; round < decodingsMax && text.includes("%"); round++) text = decoded(text);
  const segments: string[] = [];
  for (const part of text.split(/[/\\]/)) {
    const segment = canonicalSegment(part);
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment);
  }
  return segments;
}

/** Decodes escapes once. Invalid escapes stay as they are. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text.replace(/%[0-7][0-9a-f]/gi, (escape) => decodeURIComponent(escape));
  }
}

function canonicalSegment(part: string): string {
  const [segment = ""] = part.split(";");
  return segment
    .normalize("NFKC")
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, "")
    .toLowerCase();
}

/** Path prefixes that Farebox serves itself. Routes of price files cannot replace them. */
export const ownPaths = [
  "/admin",
  "/dashboard",
  "/metrics",
  "/healthz",
  "/readyz",
  "/v1",
  "/account/info",
  "/api/v1/task",
  "/api/v1/tasks",
];

/** Path of the gateway's callbacks, followed by the task's token. */
export const callbackPath = "/v1/farebox/callbacks";

/** Paths that only OpenAI's interface has. */
export const openAiPaths = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/embeddings",
  "/v1/responses",
  "/v1/images",
  "/v1/audio",
];

/** Paths that only Anthropic's interface has. */
export const anthropicPaths = ["/v1/messages"];

/** Paths below `/v1` that also work without `/v1`, for clients whose base URL lacks it. */
export const unversionedPaths = [...openAiPaths, ...anthropicPaths, "/v1/models", "/v1/farebox"].map((path) =>
  path.slice("/v1".length),
);

/** Returns true if a path equals one of these prefixes or is below one, in the spelling in which routes have it. */
export function isRoutedBelow(path: string, prefixes: readonly string[]): boolean {
  return prefixes.some((prefix) => path.startsWith(prefix) && (path[prefix.length] ?? "/") === "/");
}

/** Returns true if a path, in any spelling, equals one of these prefixes or is below one. */
export function isBelow(path: string, prefixes: readonly string[]): boolean {
  const canonical = `/${canonicalSegments(path).join("/")}`;
  return prefixes.some((prefix) => canonical === prefix || canonical.startsWith(`${prefix}/`));
}
