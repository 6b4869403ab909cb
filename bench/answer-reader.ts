/** The part of one answer that has arrived. */
export interface Answer {
  readonly status: number;
  /** Status line and headers, as they came. */
  readonly head: string;
  /** Bytes of the body, without the framing. */
  readonly bodyBytes: number;
}

const headEnd = Buffer.from("\r\n\r\n");
const lineEnd = Buffer.from("\r\n");
const nothing = Buffer.alloc(0);

type State = "head" | "sized" | "chunkSize" | "chunkData" | "chunkEnd" | "trailer" | "complete";

/**
 * Reads one HTTP/1.1 answer from bytes cut anywhere. It knows what our gateway and proxies write and no more:
 * `content-length` or chunks. It is here because an ordinary client costs more CPU than the proxies that it would measure.
 */
export class AnswerReader implements Answer {
  status = 0;
  head = "";
  bodyBytes = 0;
  readonly #onBody: (bytes: Buffer) => void;
  #state: State = "head";
  /** Bytes still missing of the body or of the chunk. */
  #missing = 0;
  #kept: Buffer = nothing;

  constructor(onBody: (bytes: Buffer) => void) {
    this.#onBody = onBody;
  }

  /** True when the answer is complete. Throws where it is not one, or where bytes follow it. */
  feed(chunk: Buffer): boolean {
    let bytes = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk]);
    this.#kept = nothing;
    while (bytes.length > 0) {
      const used = this.#read(bytes);
      if (used === 0) break;
      bytes = bytes.subarray(used);
    }
    if (this.#state === "complete" && bytes.length > 0) throw new Error("bytes after the end of an answer");
    this.#kept = bytes;
    return this.#state === "complete";
  }

  /** Returns the number of bytes read; 0 when more must come first. */
  #read(bytes: Buffer): number {
    switch (this.#state) {
      case "head":
        return this.#readHead(bytes);
      case "sized":
      case "chunkData":
        return this.#readBody(bytes);
      case "complete":
        return 0;
      default:
        return this.#readLine(bytes);
    }
  }

  #readHead(bytes: Buffer): number {
    const end = bytes.indexOf(headEnd);
    if (end === -1) return 0;
    this.head = bytes.toString("latin1", 0, end);
    this.status = Number(/^HTTP\/1\.1 (\d{3})/.exec(this.head)?.[1]);
    const length = /\r\ncontent-length: *(\d+)/i.exec(this.head)?.[1];
    if (length === undefined && !/\r\ntransfer-encoding: *chunked/i.test(this.head))
      throw new Error(`no framing: ${this.head}`);
    this.#missing = Number(length ?? 0);
    if (length === undefined) this.#state = "chunkSize";
    else this.#state = this.#missing === 0 ? "complete" : "sized";
    return end + headEnd.length;
  }

  #readBody(bytes: Buffer): number {
    const part = bytes.length <= this.#missing ? bytes : bytes.subarray(0, this.#missing);
    this.#missing -= part.length;
    this.bodyBytes += part.length;
    this.#onBody(part);
    if (this.#missing === 0) this.#state = this.#state === "sized" ? "complete" : "chunkEnd";
    return part.length;
  }

  /** A line of the chunked framing. */
  #readLine(bytes: Buffer): number {
    const end = bytes.indexOf(lineEnd);
    if (end === -1) return 0;
    if (this.#state === "chunkEnd") this.#state = "chunkSize";
    else if (this.#state === "trailer") this.#state = end === 0 ? "complete" : "trailer";
    else {
      this.#missing = Number.parseInt(bytes.toString("latin1", 0, end), 16);
      if (Number.isNaN(this.#missing)) throw new Error("a chunk without a size");
      this.#state = this.#missing === 0 ? "trailer" : "chunkData";
    }
    return end + lineEnd.length;
  }
}
