import { connect, type Socket } from "node:net";
import { AnswerReader, type Answer } from "./answer-reader.ts";

/** Longest silence on a connection before the benchmark fails, in milliseconds. */
const silenceMs = 30_000;

interface Running {
  readonly reader: AnswerReader;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: Error) => void;
}

/** Keep-alive connection for one request at a time. */
export class Connection implements Disposable {
  readonly #socket: Socket;
  #running: Running | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.setTimeout(silenceMs, () => socket.destroy(new Error(`no bytes arrived for ${silenceMs} ms`)));
    socket.on("data", (bytes) => this.#received(bytes));
    socket.on("error", (error) => this.#running?.reject(error));
    socket.on("close", () => this.#running?.reject(new Error("the connection was closed")));
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect({ port, host: "127.0.0.1" });
      socket.once("error", reject);
      socket.once("connect", () => {
        socket.off("error", reject);
        resolve(new Connection(socket));
      });
    });
  }

  /** Sends a request. `onBody` receives each part of the body on arrival, without chunk sizes. */
  send(request: Buffer, onBody: (bytes: Buffer) => void): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#running = { reader: new AnswerReader(onBody), resolve, reject };
      this.#socket.write(request);
    });
  }

  [Symbol.dispose](): void {
    this.#running = undefined;
    this.#socket.destroy();
  }

  #received(bytes: Buffer): void {
    const running = this.#running;
    if (running === undefined) return;
    try {
      if (!running.reader.feed(bytes)) return;
      this.#running = undefined;
      running.resolve(running.reader);
    } catch (error) {
      running.reject(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

/** Returns the bytes of a chat request with its head. */
export function chatRequest(
  { port, key, headers }: { readonly port: number; readonly key: string; readonly headers: readonly string[] },
  body: object,
): Buffer {
  const json = Buffer.from(JSON.stringify(body));
  const head = [
    "POST /v1/chat/completions HTTP/1.1",
    `host: 127.0.0.1:${port}`,
    "connection: keep-alive",
    "content-type: application/json",
    "accept: application/json",
    "user-agent: farebox-bench",
    `authorization: Bearer ${key}`,
    ...headers,
    `content-length: ${json.length}`,
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), json]);
}
