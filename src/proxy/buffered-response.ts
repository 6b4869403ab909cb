import type { Refusal } from "../core/refusals.ts";
import type { HeaderList } from "../ports/exchange.ts";
import { decodedBytesMax, decodeInto, isPlain } from "../wire/encoding.ts";
import { KeptBytes, type AnswerReader, type ModelAnswer } from "../wire/model-answer.ts";
import { passOn, type ResponseMode, type ResponseDeps } from "./response.ts";
import { writtenIn, type ResponseEnding, type Ending } from "./response.ts";
import type { Claimed } from "./task-ownership.ts";
import { foreignTask, noSuchTask } from "./task-ownership.ts";
import type { Mask } from "./mask.ts";

/** Up to here an answer is held until it is whole, so that its cost can stand in its headers. */
const heldBytesMax = 1024 * 1024;

type BufferedDeps = ResponseDeps & {
  readonly reader: AnswerReader;
  readonly mask: Mask;
  costHeaders(answer: ModelAnswer): HeaderList;
  showsForeignTask(answer: Buffer): boolean | Promise<boolean>;
  readonly claimsTask: ((answer: Buffer) => Promise<Claimed | null>) | null;
  /** Whether an answer only refuses the usage that was asked for, and so is kept from the client. */
  refusesUsage(answer: Buffer): boolean;
};

interface Decoded {
  /** Whether the reader has all of it. */
  readonly isRead: boolean;
  /** All of it; undefined where it cannot be decoded, has begun to leave, or is too large to be kept. */
  readonly plain: Buffer | undefined;
}

/** A plain answer: held until whole up to 1 MB, then passed as it comes. */
export class BufferedResponse implements ResponseMode {
  readonly #deps: BufferedDeps;
  /** What has not left yet. */
  #held: Buffer[] = [];
  #bytes = 0;
  /** A compressed answer, to be read when it is decoded. */
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
    if (this.#bytes > heldBytesMax) this.#pass();
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
    const { plain } = decoded;
    const { head, exchange } = this.#deps;
    if (!this.#passing && plain !== undefined && !exchange.clientGone && this.#deps.refusesUsage(plain))
      return { kind: "usageRefused", status: head.status };
    const isForeign = !this.#passing && plain !== undefined && this.#deps.showsForeignTask(plain);
    if (isForeign === false) return this.#claimed(bytes, decoded);
    return Promise.resolve(isForeign).then((is) => (is ? this.#withheld() : this.#claimed(bytes, decoded)));
  }

  #withheld(): Ending {
    const { head, exchange } = this.#deps;
    if (!exchange.clientGone) exchange.refuse(noSuchTask);
    return head.status >= 300 ? { kind: "status", status: head.status } : { kind: "unknown", reason: foreignTask };
  }

  /** A task that the answer made is bound before its client sees the id. */
  #claimed(bytes: Buffer, decoded: Decoded): Promise<ResponseEnding> | ResponseEnding {
    const { claimsTask, head, exchange } = this.#deps;
    const { plain } = decoded;
    if (claimsTask === null || head.status >= 300 || this.#passing || plain === undefined)
      return this.#read(bytes, decoded);
    return claimsTask(plain).then((claimed) => {
      if (claimed === "foreign") return this.#withheld();
      if (claimed === "unavailable") {
        if (!exchange.clientGone) exchange.refuse({ code: "ledger_unavailable" });
        return { kind: "unknown", reason: "task_not_recorded" };
      }
      const ending = this.#read(bytes, decoded);
      return claimed === "bound" ? { kind: "task" } : ending;
    });
  }

  #read(bytes: Buffer, { isRead, plain }: Decoded): Ending {
    const { head, exchange, reader } = this.#deps;
    const answer = head.status < 300 && isRead ? reader.end() : undefined;
    this.#deps.stated(answer ?? null);
    if (this.#passing) exchange.end();
    else this.#answer(bytes, plain, answer);
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

  /** The bytes as they came, except where they repeat the gateway's credential. `plain`: decoded; undefined where they cannot be. */
  #answer(bytes: Buffer, plain: Buffer | undefined, answer: ModelAnswer | undefined): void {
    const { exchange, head, headers, mask } = this.#deps;
    const masked = plain === undefined ? bytes : mask(plain);
    const changed = masked !== plain && plain !== undefined;
    const body = changed ? masked : bytes;
    const kept = headers.filter(([name]) => !isNamed(name, "content-length"));
    const sent = changed ? kept.filter(([name]) => !isNamed(name, "content-encoding")) : kept;
    if (answer !== undefined) sent.push(...this.#deps.costHeaders(answer));
    exchange.answer(head.status, sent, body);
  }

  /** Too large to hold: what came so far leaves now, and the rest follows as it comes. */
  #pass(): void {
    const { exchange, head, headers } = this.#deps;
    this.#passing = true;
    exchange.begin(head.status, headers);
    passOn(this.#deps, Buffer.concat(this.#held));
    this.#held = [];
  }

  /** Gives the reader the decoded bytes. */
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
