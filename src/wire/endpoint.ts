import type { Refusal } from "../core/refusals.ts";
import type { FormReader } from "./form.ts";
import type { AnswerReader } from "./model-answer.ts";
import type { ModelRequestResult } from "./model-request.ts";
import type { OutputMaximum } from "./output-maximum.ts";
import type { RequestFields } from "./findings.ts";
import type { OutputListener } from "./stream-output.ts";
import type { Transcript } from "./stream-transcript.ts";

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
