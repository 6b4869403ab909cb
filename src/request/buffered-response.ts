import type { Refusal } from "../core/refusals.ts";
import type { HeaderList } from "../ports/exchange.ts";
import { decodedBytesMax, decodeInto, isPlain } from "../wire/headers.ts";
import { KeptBytes, type AnswerReader, type ModelAnswer } from "../wire/model-answer.ts";
import {
  passOn,
  unchangedAnswer,
  writtenIn,
  type Ending,
  type ResponseDeps,
  type ResponseEnding,
  type ResponseMode,
  type Shown,
  type Verdict,
} from "./response.ts";
import type { Mask } from "./mask.ts";

/** Largest answer that is held until it is complete, in bytes. It is held so that its headers can state its cost. */
export const heldBytesMax = 1024 * 1024;

type BufferedDeps = ResponseDeps & {
  readonly reader: AnswerReader;
  readonly mask: Mask;
  costHeaders(answer: ModelAnswer): HeaderList;
  /**
   * Decides on a complete answer before its client gets it. `plain`: the decoded body; undefined if it cannot be decoded.
   * Returns null to pass the answer on.
   */
  inspect(status: number, plain: Buffer | undefined): Verdict | null | Promise<Verdict | null>;
  /** Largest answer that is held, in bytes. */
  readonly bytesMax: number;
  /** Ends the call if the answer is larger than `bytesMax`. Null if a larger answer is passed on as it arrives. */
  readonly onTooLarge: (() => void) | null;
};

interface Decoded {
  /** True if the reader got the whole answer. */
  readonly isRead: boolean;
  /** Whole decoded answer. Undefined if it cannot be decoded, was partly passed on, or is too large to be kept. */
  readonly plain: Buffer | undefined;
}

/** Holds an answer until it is complete. An answer that is too large is passed on as it arrives, or refused. */
export class BufferedResponse implements ResponseMode {
  readonly #deps: BufferedDeps;
  /** Bytes that have not been passed on yet. */
  #held: Buffer[] = [];
  #bytes = 0;
  /** Compressed answer, which is decoded at its end; undefined for an answer without compression. */
  readonly #compressed: KeptBytes | undefined;
  #passing = false;

  constructor(deps: BufferedDeps) {
    this.#deps = deps;
    this.#compressed = isPlain(deps.head.header("content-encoding")) ? undefined : new KeptBytes();
  }

  chunk(bytes: Buffer): void {
    this.#bytes += bytes.length;
    (this.#compressed ?? this.#deps.reader).push(bytes);
    if (this.#passing) return passOn(this.#deps, bytes);
    this.#held.push(bytes);
    if (this.#bytes <= this.#deps.bytesMax) return;
    if (this.#deps.onTooLarge !== null) this.#deps.onTooLarge();
    else this.#pass();
  }

  end(): Promise<ResponseEnding> | ResponseEnding {
    if (this.#compressed !== undefined) return this.#decoded(this.#compressed);
    const bytes = this.#whole();
    return this.#checked(bytes, { isRead: true, plain: bytes });
  }

  async #decoded(compressed: KeptBytes): Promise<ResponseEnding> {
    const decoded = await this.#decode(compressed);
    return this.#checked(this.#whole(), decoded);
  }

  #checked(bytes: Buffer, decoded: Decoded): Promise<ResponseEnding> | ResponseEnding {
    if (this.#passing) return this.#read(bytes, decoded);
    const verdict = this.#deps.inspect(this.#deps.head.status, decoded.plain);
    return verdict instanceof Promise
      ? verdict.then((known) => this.#judged(known, bytes, decoded))
      : this.#judged(verdict, bytes, decoded);
  }

  #judged(verdict: Verdict | null, bytes: Buffer, decoded: Decoded): ResponseEnding {
    if (verdict === null) return this.#read(bytes, decoded);
    if (verdict.show !== null) this.#answer(bytes, decoded.plain, undefined, verdict.show);
    return verdict.ending;
  }

  #read(bytes: Buffer, { isRead, plain }: Decoded): Ending {
    const { head, exchange, reader } = this.#deps;
    const answer = head.status < 300 && isRead ? reader.end() : undefined;
    this.#deps.stated(answer ?? null);
    if (this.#passing) exchange.end();
    else this.#answer(bytes, plain, answer, unchangedAnswer);
    if (head.status >= 300) return { kind: "status", status: head.status };
    if (answer === undefined || (answer.usage === undefined && !answer.isAnswer)) {
      return { kind: "unknown", reason: "unreadable_answer", unreadBytes: this.#bytes };
    }
    return { kind: "whole", ...writtenIn(answer), ranMs: this.#deps.ranMs() };
  }

  broken(reason: string, refusal: Refusal): Ending {
    const { exchange, head } = this.#deps;
    if (exchange.status !== null) exchange.breakOff();
    else if (!exchange.clientGone) exchange.refuse(refusal);
    return head.status >= 300 ? { kind: "status", status: head.status } : { kind: "unknown", reason };
  }

  /**
   * Answers with the gateway's bytes unless `show` or the mask changes them. `plain`: the decoded body; undefined if it
   * cannot be decoded.
   */
  #answer(bytes: Buffer, plain: Buffer | undefined, answer: ModelAnswer | undefined, show: Shown): void {
    const { exchange, head, headers, mask } = this.#deps;
    const masked = plain === undefined ? bytes : mask(show(plain));
    const changed = masked !== plain && plain !== undefined;
    const body = changed ? masked : bytes;
    const kept = headers.filter(([name]) => !isNamed(name, "content-length"));
    const sent = changed ? kept.filter(([name]) => !isNamed(name, "content-encoding")) : kept;
    if (answer !== undefined) sent.push(...this.#deps.costHeaders(answer));
    exchange.answer(head.status, sent, body);
  }

  /** Stops holding. Passes on the bytes that have arrived, and later bytes as they arrive. */
  #pass(): void {
    const { exchange, head, headers } = this.#deps;
    this.#passing = true;
    exchange.begin(head.status, headers);
    passOn(this.#deps, Buffer.concat(this.#held));
    this.#held = [];
  }

  /** Decodes the answer and passes it to the reader. */
  async #decode(compressed: KeptBytes): Promise<Decoded> {
    const bytes = compressed.whole();
    if (bytes === undefined) return { isRead: false, plain: undefined };
    const kept = this.#passing ? undefined : new KeptBytes();
    const isRead = await decodeInto(
      bytes,
      this.#deps.head.header("content-encoding") ?? "",
      decodedBytesMax,
      (piece) => {
        this.#deps.reader.push(piece);
        kept?.push(piece);
      },
    );
    return { isRead, plain: isRead ? kept?.whole() : undefined };
  }

  #whole(): Buffer {
    const [first, ...more] = this.#held;
    return first !== undefined && more.length === 0 ? first : Buffer.concat(this.#held);
  }
}

function isNamed(name: string, lower: string): boolean {
  return name.length === lower.length && name.toLowerCase() === lower;
}
