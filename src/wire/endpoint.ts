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
  /** Path, which also names the route in rows and metrics: "/v1/chat/completions". */
  readonly route: string;
  /** Fields with their meanings, which also apply to query parameters. */
  readonly fields: RequestFields;
  /** Reads a request without changing it. Refuses a request that the gateway might read differently. */
  readRequest(body: Buffer): ModelRequestResult;
  /** Reader of a form with files, which is forwarded without being stored; null if the endpoint takes no form. */
  readonly form: FormReader | null;
  /** True if any body is forwarded without being stored. Farebox then reads only its first bytes. */
  readonly isOpen?: boolean;
  /** True if an answer may name a task that the request created. */
  readonly mayMakeTasks?: boolean;
  /** True if an answer may be other than JSON. Such an answer is forwarded unread. */
  readonly answersMedia: boolean;
  answerReader(): AnswerReader;
  /** `unreadBytes`: bytes that may collect before the listener is called. */
  transcript(listener?: OutputListener, unreadBytes?: number): Transcript;
  /** Limit of the answer's text in a request; null if the answer is not text, or its limit is unknown. */
  readonly maximum: OutputMaximum | null;
  /** Adds a request for stream usage if the client made none; null if streams never need one. */
  readonly askForUsage: ((body: Buffer) => Buffer) | null;
  /** Returns the event that ends a broken stream, so that no client takes it for a whole answer. */
  breakEvent(refusal: Refusal): string;
}

/** Limit of the answer's text in requests of an endpoint. */
export interface OutputMaximum {
  readonly api: TextApi;
  /** Fields of the request that state a maximum for each choice. */
  readonly fields: readonly string[];
  /** Tokens of each choice if the request states no maximum; null if the model's own maximum applies. */
  readonly absent: number | null;
}

/**
 * Returns the body with at most `most` output tokens for each choice. All other bytes stay the same. A stated maximum
 * becomes `most` if it is larger or not a positive whole number. If none is stated, `field` is set to the smaller of
 * `most` and `unstated`, the maximum that applies without a stated one.
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
