import type { Usage } from "../core/usage.ts";
import type { AnswerTerms } from "./answer-terms.ts";
import type { Written } from "./output-walk.ts";

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
