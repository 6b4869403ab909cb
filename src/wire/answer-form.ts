import type { Endpoint } from "./endpoint.ts";
import { isEmpty, type AnswerReader, type ModelAnswer } from "./model-answer.ts";
import { answerFormOf, type AnswerForm } from "./sse.ts";
import type { OutputListener } from "./stream-output.ts";
import type { Transcript } from "./stream-transcript.ts";

/**
 * Reads an answer as JSON or as server-sent events. The first bytes decide, because gateways label some answers
 * wrongly. The label decides if the bytes show neither.
 */
export class AnswerFormReader implements AnswerReader {
  readonly #endpoint: Endpoint;
  readonly #label: AnswerForm;
  readonly #listener: OutputListener | undefined;
  #beginning: Buffer[] = [];
  /** Exactly one of these is set once the form is known. */
  json: AnswerReader | undefined;
  events: Transcript | undefined;

  constructor(endpoint: Endpoint, label: AnswerForm, listener?: OutputListener) {
    this.#endpoint = endpoint;
    this.#label = label;
    this.#listener = listener;
  }

  push(bytes: Buffer): void {
    const reader = this.events ?? this.json;
    if (reader !== undefined) return reader.push(bytes);
    this.#beginning.push(bytes);
    const form = answerFormOf(this.#beginning.length === 1 ? bytes : Buffer.concat(this.#beginning));
    if (form !== undefined) this.#begin(form === "other" ? this.#label : form);
  }

  /** Chooses the form by the label if the answer ends before its bytes show the form. */
  finish(): void {
    if (this.events === undefined && this.json === undefined) this.#begin(this.#label);
  }

  end(): ModelAnswer | undefined {
    this.finish();
    if (this.events === undefined) return this.json?.end();
    const { error, ...answer } = this.events.end();
    // An error next to output ends the answer, but is not all of it.
    const isAll = error !== undefined && isEmpty(answer);
    return { ...answer, isAnswer: answer.finished, ...(isAll && { error }) };
  }

  #begin(form: AnswerForm): void {
    const reader =
      form === "json"
        ? (this.json = this.#endpoint.answerReader())
        : (this.events = this.#endpoint.transcript(this.#listener));
    for (const piece of this.#beginning) reader.push(piece);
    this.#beginning = [];
  }
}
