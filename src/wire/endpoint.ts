import type { Refusal } from "../core/refusals.ts";
import type { HeaderTable } from "./field-table.ts";
import type { Form } from "./form.ts";
import type { AnswerReader } from "./model-answer.ts";
import { isValidMaximum, type ModelRequestResult } from "./model-request.ts";
import type { RequestFields } from "./findings.ts";
import type { OutputListener } from "./stream-output.ts";
import type { Transcript } from "./stream-transcript.ts";
import type { TextApi } from "../core/bounds.ts";
import { replaced, withMember } from "./json-edit.ts";
import { jsonMembers, parseJson } from "./json.ts";

/** Describes one kind of request: how Farebox reads its bytes and its answers. */
export interface Endpoint {
  /** Path. Ledger rows and metrics use it as the name of the route: "/v1/chat/completions". */
  readonly route: string;
  /** Table of known fields. Farebox also looks up query parameters in it. */
  readonly fields: RequestFields;
  /** Values of headers that may change a price; absent if those of other endpoints apply. */
  readonly headerValues?: HeaderTable;
  /** Reads a request without changing it. Refuses a request that the gateway might read differently. */
  readRequest(body: Buffer, contentType?: string): ModelRequestResult;
  /**
   * Reads a form, which is undefined if it can be read in several ways. Absent if the endpoint does not accept forms.
   */
  readForm?(form: Form | undefined): ModelRequestResult;
  /** True for paths whose fields Farebox does not know. */
  readonly isUnknown?: boolean;
  /** True if an answer may name a task that the request created. */
  readonly mayMakeTasks?: boolean;
  /**
   * True if an answer may have a format other than JSON. Farebox forwards an answer in another format without reading
   * it.
   */
  readonly answersMedia?: boolean;
  answerReader(): AnswerReader;
  transcript(listener?: OutputListener): Transcript;
  /** Fields of a request that limit the answer's text; absent if the answer is not text, or the fields are unknown. */
  readonly maximum?: OutputMaximum;
  /** True for text without such fields, if the policy for hosted tools that nothing bounds applies to it. */
  readonly hasToolPolicy?: true;
  /**
   * Returns the body with a request for stream usage; absent if the endpoint's streams always or never report usage.
   */
  readonly askForUsage?: (body: Buffer) => Buffer;
  /**
   * Returns the event that ends a broken stream. Without the event, clients would mistake the stream for a complete
   * answer. `requestId`: Farebox's id of the request.
   */
  breakEvent(refusal: Refusal, requestId: string): string;
}

/** Fields that limit the answer's text in the requests of an endpoint. */
export interface OutputMaximum {
  /** API for which price files name the field that limits a model; null if it is the first of `fields` for every model. */
  readonly api: TextApi | null;
  /** Fields of the request that state a maximum for each choice. */
  readonly fields: readonly string[];
  /** Maximum of each choice if the request states none, in tokens; null if the model's maximum applies. */
  readonly absent: number | null;
  /**
   * True if a request must state a maximum. Clients then state the most that the model can write, so Farebox may lower a
   * stated maximum to fit a budget. A maximum of 0 is valid.
   */
  readonly isRequired?: true;
}

/**
 * Limits the output in a request to `most` tokens for each choice. All other bytes stay the same. Replaces a stated
 * maximum that is larger or not valid. If the request states none, sets `field` to the smaller of `most` and
 * `unstated`. `unstated` is the maximum that applies to a request without a stated maximum.
 */
export function withOutputMaximum(
  body: Buffer,
  { fields, isRequired }: OutputMaximum,
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
    .filter(({ value }) => !(isValidMaximum(value) || (isRequired === true && value === 0)) || value > most)
    .reduceRight((whole, { valueStart, valueEnd }) => replaced(whole, valueStart, valueEnd, String(most)), body);
}
