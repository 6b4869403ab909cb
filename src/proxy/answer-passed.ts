import type { Refusal } from "../core/refusals.ts";
import { passOn, type AnswerMode, type AnswerParts } from "./answer.ts";
import type { Ending } from "./ending.ts";

/** Sound, an image or a text of its own: each chunk leaves in the tick it came, and nothing of it is read. */
export class PassedAnswer implements AnswerMode {
  readonly #parts: AnswerParts;

  constructor(parts: AnswerParts) {
    this.#parts = parts;
    parts.exchange.begin(parts.head.status, parts.headers);
  }

  chunk(bytes: Buffer): void {
    passOn(this.#parts, bytes);
  }

  end(): Ending {
    this.#parts.exchange.end();
    return { kind: "whole", usage: undefined, texts: [], ranMs: this.#parts.ranMs() };
  }

  broken(reason: string, _refusal: Refusal): Ending {
    this.#parts.exchange.breakOff();
    return { kind: "unknown", reason };
  }
}
