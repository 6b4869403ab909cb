import type { Refusal } from "../core/refusals.ts";
import type { HeaderList } from "../ports/exchange.ts";
import { readChatAnswer, type ChatAnswer } from "../wire/chat-answer.ts";
import { decoded, isPlain } from "../wire/encoding.ts";
import { passOn, type AnswerMode, type AnswerParts } from "./answer.ts";
import type { Ending } from "./ending.ts";
import type { Mask } from "./mask.ts";

/** Up to here an answer is held until it is whole, so that its cost can stand in its headers. */
const heldBytesMax = 1024 * 1024;
/** Up to here a larger answer is kept for metering while it passes; beyond, it is settled at its hold. */
const meteredBytesMax = 16 * 1024 * 1024;

type HeldParts = AnswerParts & {
  readonly mask: Mask;
  costHeaders(answer: ChatAnswer): HeaderList;
};

/** A plain answer: held until whole up to 1 MB, then passed as it comes. */
export class HeldAnswer implements AnswerMode {
  readonly #parts: HeldParts;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #passing = false;

  constructor(parts: HeldParts) {
    this.#parts = parts;
  }

  chunk(bytes: Buffer): void {
    this.#bytes += bytes.length;
    if (this.#bytes <= meteredBytesMax) this.#chunks.push(bytes);
    if (this.#passing) passOn(this.#parts, bytes);
    else if (this.#bytes > heldBytesMax) this.#pass();
  }

  async end(): Promise<Ending> {
    const { head, exchange } = this.#parts;
    const bytes = this.#whole();
    const encoding = head.header("content-encoding");
    const text = bytes === undefined || isPlain(encoding) ? bytes : await decoded(bytes, encoding ?? "");
    const answer = head.status < 300 && text !== undefined ? readChatAnswer(text) : undefined;
    this.#parts.served(answer?.servedModel ?? null);
    if (this.#passing) exchange.end();
    else this.#answer(bytes ?? Buffer.alloc(0), text, answer);
    if (head.status >= 300) return { kind: "status", status: head.status };
    if (answer === undefined || (answer.usage === undefined && !answer.hasChoices)) {
      return { kind: "unknown", reason: "unreadable_answer" };
    }
    return { kind: "whole", usage: answer.usage, texts: answer.texts, ranMs: this.#parts.ranMs() };
  }

  broken(reason: string, refusal: Refusal): Ending {
    const { exchange, head } = this.#parts;
    if (exchange.status !== null) exchange.breakOff();
    else if (!exchange.clientGone) exchange.refuse(refusal);
    return head.status >= 300 ? { kind: "status", status: head.status } : { kind: "unknown", reason };
  }

  /** The bytes as they came, except where they repeat the gateway's credential. */
  #answer(bytes: Buffer, text: Buffer | undefined, answer: ChatAnswer | undefined): void {
    const { exchange, head, headers, mask } = this.#parts;
    const masked = text === undefined ? bytes : mask(text);
    const changed = masked !== text && text !== undefined;
    const body = changed ? masked : bytes;
    const kept = headers.filter(([name]) => {
      const lower = name.toLowerCase();
      return lower !== "content-length" && !(changed && lower === "content-encoding");
    });
    const cost = answer === undefined ? [] : this.#parts.costHeaders(answer);
    exchange.answer(head.status, [...kept, ...cost], body);
  }

  /** Too large to hold: what came so far leaves now, and the rest follows as it comes. */
  #pass(): void {
    const { exchange, head, headers } = this.#parts;
    this.#passing = true;
    exchange.begin(head.status, headers);
    passOn(this.#parts, Buffer.concat(this.#chunks));
  }

  #whole(): Buffer | undefined {
    if (this.#bytes > meteredBytesMax) return undefined;
    return this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
  }
}
