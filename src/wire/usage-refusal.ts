import type { StatedError } from "../core/settlement.ts";
import { chatCompletions } from "./endpoints/chat-completions.ts";
import { listOr, objectOr } from "./json.ts";
import { readStatedError } from "./stated-error.ts";

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
  /** The gateway answers the request. */
  | { readonly kind: "answer" }
  /** The answer is only an error, and the request for usage may be its cause. */
  | { readonly kind: "refusal"; readonly error: StatedError }
  /** An error with another cause, or next to output or usage. */
  | { readonly kind: "error" }
  /** A ping or a report on the prompt. The next JSON decides. */
  | { readonly kind: "open" };

/** Reads the first JSON of an answer: the data of an event, or a whole answer. */
export function readFirst(first: object): FirstMeaning {
  const error = readStatedError(first);
  if (error === undefined) {
    const { choices, candidates } = objectOr(first);
    return { kind: listOr(choices).length > 0 || listOr(candidates).length > 0 ? "answer" : "open" };
  }
  const { kind, status, reason } = error;
  const text = JSON.stringify(first);
  // A reason in words, such as a missing credit, is another cause.
  const isVague = reason === "request_format" || reason.startsWith("gateway_") || namesUsage(text);
  const isPossible = kind === "refused" && (status === null ? isVague : mayRefuseStreamUsage(status));
  return isPossible && isAlone(text) ? { kind: "refusal", error } : { kind: "error" };
}

/** Returns true if an answer that states an error contains neither output nor usage. */
function isAlone(text: string): boolean {
  const reader = chatCompletions.answerReader();
  reader.push(Buffer.from(text));
  return reader.end()?.error !== undefined;
}
