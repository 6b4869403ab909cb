import { isObject, listOr, objectOr, storedText, textOr, type JsonObject } from "./json.ts";
import type { Usage } from "../core/usage.ts";
import type { Written } from "./output-walk.ts";

/** Terms of an answer that decide its cost, in addition to its usage. */
export interface AnswerTerms {
  /** Name of the model that answered, in its stored form; null where none is named. */
  readonly servedModel: string | null;
  /** The service tier as it is stated, null included; undefined where nothing states one. */
  readonly serviceTier?: unknown;
  /** Calls of hosted tools by the type of their items, zeros included; undefined where nothing states them. */
  readonly toolCalls?: ToolCalls | undefined;
}

export type ToolCalls = Readonly<Record<string, number>>;

/** Kind of the calls whose number the answer does not state. */
const unstatedCall = "unstated_call";

/** Calls that run at the client, so that nothing but their tokens is billed. */
const clientCalls: ReadonlySet<string> = new Set([
  "function_call",
  "custom_tool_call",
  "local_shell_call",
  "apply_patch_call",
  "computer_call",
]);

/** More kinds in one answer are counted as one. */
const kindsMax = 32;

const callType = /^[a-z][a-z0-9_]{0,58}_call$/;

const callsMax = 1_000_000;

/** The terms that a whole answer, or an event of a stream, states outside of its content. */
export function answerTerms(body: JsonObject): AnswerTerms {
  const { model, usage, service_tier } = body;
  return {
    servedModel: typeof model === "string" && model !== "" ? storedText(model) : null,
    serviceTier: service_tier ?? objectOr(usage)["service_tier"] ?? service_tier,
    toolCalls: statedCalls(usage),
  };
}

/** Returns the calls that the usage counts, as Anthropic does: `server_tool_use: { web_search_requests: 2 }`. */
function statedCalls(usage: unknown): ToolCalls | undefined {
  const stated = objectOr(usage)["server_tool_use"];
  if (!isObject(stated)) return undefined;
  const calls = new Map<string, number>();
  for (const [name, count] of Object.entries(stated)) {
    if (count === null) continue;
    const isCount = typeof count === "number" && Number.isInteger(count) && count >= 0 && count <= callsMax;
    if (isCount) addCalls(calls, name.replace(/_requests$/, "_call"), count);
    else addCalls(calls, unstatedCall, 1);
  }
  return Object.fromEntries(calls);
}

/** Calls of hosted tools among the items of an output; undefined where it is no list. */
export function callsIn(output: unknown): ToolCalls | undefined {
  if (!Array.isArray(output)) return undefined;
  const calls = new Map<string, number>();
  for (const item of output) {
    const type = hostedCall(item);
    if (type !== null) addCalls(calls, type, 1);
  }
  return Object.fromEntries(calls);
}

/** The type of an item that is a call of a hosted tool; null for any other. */
export function hostedCall(item: unknown): string | null {
  const { type, action, environment } = objectOr(item);
  if (typeof type !== "string" || !type.endsWith("_call") || clientCalls.has(type)) return null;
  // Reading a page that a search has found is not charged as a search.
  if (type === "web_search_call" && pageActions.has(textOr(objectOr(action)["type"]))) return null;
  if (type === "shell_call" && objectOr(environment)["type"] === "local") return null;
  return type;
}

const pageActions: ReadonlySet<string> = new Set(["open_page", "find_in_page"]);

function addCalls(calls: Map<string, number>, type: string, count: number): void {
  const isOwn = callType.test(type) && (calls.has(type) || calls.size < kindsMax);
  const kind = isOwn ? type : "other_call";
  calls.set(kind, (calls.get(kind) ?? 0) + count);
}

/** Returns the larger count of each kind. */
export function mergeCalls(...stated: readonly (ToolCalls | undefined)[]): ToolCalls | undefined {
  const known = stated.filter((calls) => calls !== undefined);
  if (known.length <= 1) return known[0];
  const all = new Map<string, number>();
  for (const calls of known)
    for (const [kind, count] of Object.entries(calls)) all.set(kind, Math.max(all.get(kind) ?? 0, count));
  return Object.fromEntries(all);
}

/** Reports that a choice of a chat cites pages: a search was made for it. */
export function citesPages(choice: unknown, where: "message" | "delta"): boolean {
  return listOr(objectOr(objectOr(choice)[where])["annotations"]).some((note) => objectOr(note)["type"] === citation);
}

export const citation = "url_citation";

/** Adds a call of unstated number if pages are cited and no count is stated. */
export function withCitations(terms: AnswerTerms, cites: boolean): AnswerTerms {
  return cites && terms.toolCalls === undefined ? { ...terms, toolCalls: { [unstatedCall]: 1 } } : terms;
}

/** Content of an answer that matters for its price. */
export interface ModelAnswer extends Written, AnswerTerms {
  /** Undefined when the gateway reported none that can be believed. */
  readonly usage: Usage | undefined;
  /** True if it is an answer of its kind; an error page is not. */
  readonly isAnswer: boolean;
}

/** Reads an answer as its bytes come, plain ones, and says at its end what was in it. */
export interface AnswerReader {
  push(bytes: Buffer): void;
  /** Undefined where it is no JSON object, or too large to be read. Never throws. */
  end(): ModelAnswer | undefined;
}

/** Up to here an answer is kept for metering while it passes; a larger one is settled at its hold. */
export const keptBytesMax = 16 * 1024 * 1024;

/** The bytes of an answer for as long as they are not too many. */
export class KeptBytes {
  #chunks: Buffer[] = [];
  #bytes = 0;

  push(bytes: Buffer): void {
    this.#bytes += bytes.length;
    if (this.#bytes <= keptBytesMax) this.#chunks.push(bytes);
    else this.#chunks = [];
  }

  /** All of them; undefined where they were too many. */
  whole(): Buffer | undefined {
    if (this.#bytes > keptBytesMax) return undefined;
    return this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
  }
}

/** Keeps the whole answer and reads it after its last byte. */
export function bufferedReader(read: (bytes: Buffer) => ModelAnswer | undefined): AnswerReader {
  const kept = new KeptBytes();
  return {
    push: (bytes) => kept.push(bytes),
    end() {
      const bytes = kept.whole();
      return bytes === undefined ? undefined : read(bytes);
    },
  };
}
