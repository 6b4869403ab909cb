import type { Refusal } from "../core/refusals.ts";
import type { FormReader } from "./form.ts";
import type { AnswerReader } from "./model-answer.ts";
import type { ModelRequestResult } from "./model-request.ts";
import type { OutputMaximum } from "./output-maximum.ts";
import type { RequestFields } from "./request-fields.ts";
import type { OutputListener } from "./stream-output.ts";
import type { Transcript } from "./stream-transcript.ts";

/** What the story needs to know of one kind of request: how its bytes are read, and those of its answer. */
export interface Endpoint {
  /** Its path, and the name of its route in rows and metrics: "/v1/chat/completions". */
  readonly route: string;
  /** Its fields with their meanings; query parameters are judged by them too. */
  readonly fields: RequestFields;
  /** Reads a request for looking only. Refuses what the gateway might read differently. */
  readRequest(body: Buffer): ModelRequestResult;
  /** How it is read where it is a form with files, which passes without being held; null where it never is one. */
  readonly form: FormReader | null;
  /** Whether any body passes without being held, whatever it is: what is read of it is its first bytes. */
  readonly isOpen?: boolean;
  /** Whether its answer may name a task that it made. */
  readonly mayMakeTasks?: boolean;
  /** Whether an answer may be something else than JSON, which is passed on unread. */
  readonly answersMedia: boolean;
  answerReader(): AnswerReader;
  /** `unreadBytes`: that the listener need not hear of before there are more. */
  transcript(listener?: OutputListener, unreadBytes?: number): Transcript;
  /** How a request limits the text of its answer; null where the answer is no text, or nothing is known of it. */
  readonly maximum: OutputMaximum | null;
  /** How stream usage is asked for in the place of a client that did not; null where streams report it unasked. */
  readonly askForUsage: ((body: Buffer) => Buffer) | null;
  /** The event that ends a stream which cannot go on, so that no client takes it for a whole answer. */
  breakEvent(refusal: Refusal): string;
}
