import { connect, type Socket } from "node:net";
import { expect } from "vitest";

/** One HTTP answer as received. Names are in lower case; all values of repeated headers are kept. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string[]>>;
  readonly body: string;
}

/** A connection on which tests write bytes that no HTTP client would. */
export class RawClient implements Disposable {
  readonly socket: Socket;
  readonly #closed: Promise<unknown>;
  #received = Buffer.alloc(0);
  #wake: () => void = () => undefined;

  constructor(url: string) {
    const { port, hostname } = new URL(url);
    this.socket = connect(Number(port), hostname);
    this.socket.on("data", (bytes) => {
      this.#received = Buffer.concat([this.#received, bytes]);
      this.#wake();
    });
    this.socket.on("error", () => undefined);
    this.#closed = new Promise<void>((resolve) => this.socket.once("close", () => resolve())).then(() => this.#wake());
  }

  send(...parts: readonly (string | Buffer)[]): this {
    for (const part of parts) this.socket.write(typeof part === "string" ? Buffer.from(part, "latin1") : part);
    return this;
  }

  /** Returns the next complete answer. */
  async answer(how: { readonly toHead?: boolean } = {}): Promise<RawAnswer> {
    for (;;) {
      const end = this.#received.indexOf("\r\n\r\n");
      if (end !== -1) {
        const [line = "", ...fields] = this.#received.toString("latin1", 0, end).split("\r\n");
        const headers: Record<string, string[]> = {};
        for (const field of fields) {
          const colon = field.indexOf(":");
          (headers[field.slice(0, colon).toLowerCase()] ??= []).push(field.slice(colon + 1).trim());
        }
        const status = Number(line.split(" ")[1]);
        const length = how.toHead || status < 200 ? 0 : Number(headers["content-length"]?.[0] ?? 0);
        if (this.#received.length >= end + 4 + length) {
          const body = this.#received.toString("utf8", end + 4, end + 4 + length);
          this.#received = this.#received.subarray(end + 4 + length);
          return { status, headers, body };
        }
      }
      if (this.socket.closed)
        throw new Error(`the connection closed after ${JSON.stringify(this.#received.toString())}`);
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  /** Resolves once the other side has ended the connection. */
  async closed(): Promise<void> {
    await this.#closed;
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

/** Sends one request given as text and reads its answer. */
export async function fetchRaw(url: string, ...parts: readonly (string | Buffer)[]): Promise<RawAnswer> {
  using client = new RawClient(url);
  return await client.send(...parts).answer();
}

/** Returns a request head such as "GET /x" with these header lines, and a Host unless the lines contain one. */
export function head(url: string, request: string, ...lines: readonly string[]): string {
  const host = lines.some((line) => /^host:/i.test(line)) ? [] : [`Host: ${new URL(url).host}`];
  return [`${request} HTTP/1.1`, ...host, ...lines, "", ""].join("\r\n");
}

/** Checks an error answer of Farebox: OpenAI's format with all four fields, and both request ids. */
export function expectRefusal(answer: RawAnswer, status: number, code: string): void {
  expect(answer.body).not.toBe("");
  const body = JSON.parse(answer.body) as { error: object };
  expect({ status: answer.status, error: body.error, code: answer.headers["x-farebox-error"] }).toEqual({
    status,
    error: expect.objectContaining({ message: expect.any(String), type: expect.any(String), code }),
    code: [code],
  });
  expect(Object.keys(body.error).slice(0, 4)).toEqual(["message", "type", "param", "code"]);
  expect(answer.headers["content-type"]).toEqual(["application/json"]);
  expect(answer.headers["x-farebox-request-id"]).toEqual([expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)]);
  expect(answer.headers["x-request-id"]).toEqual(answer.headers["x-farebox-request-id"]);
}
