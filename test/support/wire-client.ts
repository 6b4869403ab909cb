import { once } from "node:events";
import {
  request as httpRequest,
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from "node:http";

/* A client that sees raw bytes: it decodes, follows and retries nothing. */

interface Target {
  readonly url: string;
  readonly key: string;
}

export interface WireOptions {
  readonly headers?: Record<string, string>;
  readonly path?: string;
  readonly method?: string;
  readonly agent?: Agent;
}

export interface WireAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  /** Null if the body is complete, otherwise the error's code. */
  readonly broken: string | null;
}

export type Body = Buffer | string | object;

export function bytesOf(body: Body): Buffer {
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
}

/** Sends a chat request and does not wait for its answer. */
export function send(target: Target, body: Body | undefined, options: WireOptions = {}): ClientRequest {
  const request = httpRequest(target.url + (options.path ?? "/v1/chat/completions"), {
    method: options.method ?? "POST",
    agent: options.agent ?? false,
    headers: { authorization: `Bearer ${target.key}`, "content-type": "application/json", ...options.headers },
  });
  request.on("error", () => undefined);
  request.end(body === undefined ? undefined : bytesOf(body));
  return request;
}

/** Sends a request and reads the answer to its end, however it ends; rejects if no headers arrive. */
export async function fetchAnswer(
  target: Target,
  body: Body | undefined,
  options: WireOptions = {},
): Promise<WireAnswer> {
  const [response] = (await once(send(target, body, options), "response")) as [IncomingMessage];
  return readToEnd(response);
}

export async function readToEnd(response: IncomingMessage): Promise<WireAnswer> {
  const chunks: Buffer[] = [];
  let broken: string | null = null;
  try {
    for await (const chunk of response) chunks.push(chunk as Buffer);
  } catch (error) {
    broken = (error as NodeJS.ErrnoException).code ?? "error";
  }
  const { headers, rawHeaders } = response;
  return { status: response.statusCode ?? 0, headers, rawHeaders, body: Buffer.concat(chunks), broken };
}

/** An answer whose headers have arrived, and whose body the test reads. */
export class OpenAnswer {
  readonly request: ClientRequest;
  readonly response: IncomingMessage;
  readonly #chunks: AsyncIterator<Buffer>;

  constructor(request: ClientRequest, response: IncomingMessage) {
    this.request = request;
    this.response = response;
    this.#chunks = response[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  /** Reads this many bytes; never returns if they do not arrive. */
  async take(bytes: number): Promise<Buffer> {
    const taken: Buffer[] = [];
    for (let size = 0; size < bytes;) {
      const { value, done } = await this.#chunks.next();
      if (done === true) throw new Error(`the answer ended after ${size} of ${bytes} bytes`);
      taken.push(value);
      size += value.length;
    }
    return Buffer.concat(taken);
  }

  async rest(): Promise<Buffer> {
    const taken: Buffer[] = [];
    for (;;) {
      const { value, done } = await this.#chunks.next();
      if (done === true) return Buffer.concat(taken);
      taken.push(value);
    }
  }

  leave(): void {
    this.response.on("error", () => undefined);
    this.request.destroy();
  }
}

/** Sends a request and waits only for the headers. */
export async function open(target: Target, body: Body, options: WireOptions = {}): Promise<OpenAnswer> {
  const request = send(target, body, options);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return new OpenAnswer(request, response);
}

/** Returns the data of each event according to the rules of server-sent events, including [DONE]. */
export function eventsIn(body: Buffer): string[] {
  const events: string[] = [];
  let data: string[] = [];
  for (const line of body.toString().split(/\r\n|\n|\r/)) {
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    if (line === "" && data.length > 0) {
      events.push(data.join("\n"));
      data = [];
    }
  }
  return events;
}

/** Returns the code of the error event that ends a stream; undefined if it ends otherwise. */
export function lastErrorCode(body: Buffer): string | null | undefined {
  const last = eventsIn(body).at(-1);
  if (last === undefined || last === "[DONE]") return undefined;
  return JSON.parse(last).error?.code;
}

/** Returns the code of a Farebox error answer. */
export function errorCode(answer: { readonly body: Buffer }): string {
  return JSON.parse(answer.body.toString()).error.code;
}
