/** The part of one answer that has arrived. */
export interface Answer {
  readonly status: number;
  /** Status line and headers as received. */
  readonly head: string;
  /** Length of the body in bytes, without chunk sizes. */
  readonly bodyBytes: number;
}

const headEnd = Buffer.from("\r\n\r\n");
const lineEnd = Buffer.from("\r\n");
const nothing = Buffer.alloc(0);

type State = "head" | "sized" | "chunkSize" | "chunkData" | "chunkEnd" | "trailer" | "complete";

/**
 * Reads one HTTP/1.1 answer with `content-length` or chunks. Its bytes may arrive in pieces of any size. The benchmark does
 * not use an ordinary HTTP client, because such a client needs more CPU than the proxies under test.
 */
export class AnswerReader implements Answer {
  status = 0;
  head = "";
  bodyBytes = 0;
  readonly #onBody: (bytes: Buffer) => void;
  #state: State = "head";
  /** Number of bytes of the body or of the current chunk that have not arrived. */
  #missing = 0;
  /** Bytes of an incomplete head or line. */
  #rest: Buffer = nothing;

  constructor(onBody: (bytes: Buffer) => void) {
    this.#onBody = onBody;
  }

  /** Returns true if the answer is complete. Throws an error if it is invalid or more bytes follow. */
  feed(chunk: Buffer): boolean {
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#rest = nothing;
    while (bytes.length > 0) {
      const used = this.#read(bytes);
      if (used === 0) break;
      bytes = bytes.subarray(used);
    }
    if (this.#state === "complete" && bytes.length > 0) throw new Error("more bytes after the end of the answer");
    this.#rest = bytes;
    return this.#state === "complete";
  }

  /** Returns the number of bytes read; 0 if more bytes are needed first. */
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
      throw new Error(`the answer has neither content-length nor chunks: ${this.head}`);
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

  /** Reads a chunk size, the end of a chunk, or a trailer line. */
  #readLine(bytes: Buffer): number {
    const end = bytes.indexOf(lineEnd);
    if (end === -1) return 0;
    if (this.#state === "chunkEnd") this.#state = "chunkSize";
    else if (this.#state === "trailer") this.#state = end === 0 ? "complete" : "trailer";
    else {
      this.#missing = Number.parseInt(bytes.toString("latin1", 0, end), 16);
      if (Number.isNaN(this.#missing)) throw new Error("a chunk of the answer has no size");
      this.#state = this.#missing === 0 ? "trailer" : "chunkData";
    }
    return end + lineEnd.length;
  }
}
