import type { Refusal } from "../core/refusals.ts";
import type { FormReader } from "./form.ts";
import type { AnswerReader } from "./model-answer.ts";
import { isOutputLimit, type ModelRequestResult } from "./model-request.ts";
import type { RequestFields } from "./findings.ts";
import type { OutputListener, Transcript } from "./stream-output.ts";
import type { TextApi } from "../core/bounds.ts";
import { jsonMembers, parseJson, replaced, withMember } from "./json.ts";

/** Description of one kind of request: the readers of its bytes and of its answers. */
export interface Endpoint {
  /** Its path, and the name of its route in rows and metrics: "/v1/chat/completions". */
  readonly route: string;
  /** Its fields with their meanings, which also apply to query parameters. */
  readonly fields: RequestFields;
  /** Reads a request without changing it. Refuses a request that the gateway might read differently. */
  readRequest(body: Buffer): ModelRequestResult;
  /** Reader of a form with files, which passes without being kept; null for none. */
  readonly form: FormReader | null;
  /** True if any body passes without being kept; only its first bytes are read. */
  readonly isOpen?: boolean;
  /** True if its answer may name a task that it created. */
  readonly mayMakeTasks?: boolean;
  /** True if an answer may be something other than JSON, which passes unread. */
  readonly answersMedia: boolean;
  answerReader(): AnswerReader;
  /** `unreadBytes`: bytes that may collect before the listener is called. */
  transcript(listener?: OutputListener, unreadBytes?: number): Transcript;
  /** Limit of the answer's text in a request; null where the answer is no text, or its limit is unknown. */
  readonly maximum: OutputMaximum | null;
  /** Adds a request for stream usage where the client made none; null where streams always report it. */
  readonly askForUsage: ((body: Buffer) => Buffer) | null;
  /** Returns the event that ends a broken stream, so that no client takes it for a whole answer. */
  breakEvent(refusal: Refusal): string;
}

/** Limit of the answer's text in requests of an endpoint. */
export interface OutputMaximum {
  readonly api: TextApi;
  /** Fields of the request that state a maximum for each choice. */
  readonly fields: readonly string[];
  /** Tokens of each choice where no maximum is stated; null where that is the model's own maximum. */
  readonly absent: number | null;
}

/**
 * Returns the body with at most `most` output tokens for each choice; every other byte stays as it was. A larger stated
 * maximum, and one that is no whole number above 0, becomes `most`. Where none is stated, `field` gets `most`, at most the
 * `unstated` that would hold without it.
 */
export function withOutputMaximum(
  body: Buffer,
  { fields }: OutputMaximum,
  { field, most, unstated }: { readonly field: string; readonly most: number; readonly unstated: number },
): Buffer {
  const stated = jsonMembers(body)
    .filter(({ name }) => fields.includes(name))
    .map(({ valueStart, valueEnd }) => ({
      valueStart,
      valueEnd,
      value: parseJson(body.toString("latin1", valueStart, valueEnd)),
    }))
    .filter(({ value }) => value !== null);
  if (stated.length === 0) return withMember(body, field, String(Math.min(most, unstated)));
  return stated
    .filter(({ value }) => !isOutputLimit(value) || value > most)
    .reduceRight((whole, { valueStart, valueEnd }) => replaced(whole, valueStart, valueEnd, String(most)), body);
}
