import type { StatedError } from "../core/settlement.ts";
import { chatCompletions } from "./endpoints/chat-completions.ts";
import { hasOutputIn, statesUsage } from "./error-answer.ts";
import { isObject, listOr, type JsonObject } from "./json.ts";
import { chatAnswer, chunkChoice } from "./output-members.ts";
import { isAbsent, readExplicitError, readStatedError, roleOf } from "./stated-error.ts";

/** Returns true if an answer suggests that the gateway does not support `include_usage`. */
export function refusesStreamUsage(status: number, answer: Buffer): boolean {
  return (status === 400 || status === 422) && namesUsage(answer);
}

function namesUsage(answer: Buffer | string): boolean {
  return answer.includes("stream_options") || answer.includes("include_usage");
}

/**
 * Statuses of errors that a request for usage may cause. Others, such as 401, 402, 403, 413 and 429, have another
 * cause.
 */
const possibleStatuses: ReadonlySet<number> = new Set([400, 404, 422, 500, 501]);

/** Returns true if a request for usage may be the cause of an error with this status. */
export function mayRefuseStreamUsage(status: number): boolean {
  return possibleStatuses.has(status);
}

/** Meaning of the first JSON in an answer with a success status, for a request that asks for usage. */
export type FirstMeaning =
  /** The gateway answers the request: it states output or usage, which it may bill. */
  | { readonly kind: "answer" }
  /** The answer is only an error, and the request for usage may be its cause. */
  | { readonly kind: "refusal"; readonly error: StatedError }
  /** An error with another cause, an error next to output or usage, or anything whose meaning is not known. */
  | { readonly kind: "other" }
  /** A ping, or a report on the prompt or the progress. The next JSON decides. */
  | { readonly kind: "open" };

/**
 * Reads the first JSON of an answer: the data of an event, or the whole answer if `isWhole`. In an event, a message or
 * an unknown code alone is no error, because the request may still run.
 */
export function readFirst(first: object, isWhole = false): FirstMeaning {
  const error = isWhole ? readStatedError(first) : readExplicitError(first);
  if (error === undefined) return { kind: kindOf(first) };
  const { kind, status, reason } = error;
  const text = JSON.stringify(first);
  // A specific reason, such as missing credit, is another cause.
  const mayConcernUsage = reason === "request_format" || reason.startsWith("gateway_") || namesUsage(text);
  const mayBeCause =
    kind === "refused" &&
    error.refusesKey !== true &&
    (status === null ? mayConcernUsage : mayRefuseStreamUsage(status));
  return mayBeCause && statesOnlyError(text) ? { kind: "refusal", error } : { kind: "other" };
}

function kindOf(first: object): "answer" | "other" | "open" {
  if (!isObject(first))
    return listOr(first).some((each) => isObject(each) && kindOf(each) !== "open") ? "other" : "open";
  const hasChoice = listOr(first["choices"]).length > 0 || listOr(first["candidates"]).length > 0;
  if (hasChoice || statesUsage(first) || hasOutputIn(first, chatAnswer, { choices: chunkChoice })) return "answer";
  return Object.keys(first).every((name) => isEnvelope(name, first)) ? "open" : "other";
}

/** Returns true if a member does not suggest output. Known members count as none, because they were checked before. */
function isEnvelope(name: string, { [name]: value }: JsonObject): boolean {
  const isKnown = chatAnswer.members[name] !== undefined || roleOf(name) !== undefined;
  return isKnown || typeof value === "number" || typeof value === "boolean" || isAbsent(value);
}

/** Returns true if an answer that states an error contains neither output nor usage. */
export function statesOnlyError(text: string): boolean {
  const reader = chatCompletions.answerReader();
  reader.push(Buffer.from(text));
  return reader.end()?.error !== undefined;
}
