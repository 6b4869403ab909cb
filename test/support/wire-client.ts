import { once } from "node:events";
import {
  request as httpRequest,
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from "node:http";

/** A client that sees bytes: nothing is decoded, followed, repeated or kept from it. */
export interface Target {
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
  /** Null when the body came to its end, else the error's code. */
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

/** Sends and reads the answer to its end, however it ends; rejects when no headers come. */
export async function ask(target: Target, body: Body | undefined, options: WireOptions = {}): Promise<WireAnswer> {
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

/** An answer whose headers have come and which is read as the test wants it. */
export class OpenAnswer {
  readonly request: ClientRequest;
  readonly response: IncomingMessage;
  readonly #chunks: AsyncIterator<Buffer>;

  constructor(request: ClientRequest, response: IncomingMessage) {
    this.request = request;
    this.response = response;
    this.#chunks = response[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  /** Reads until so many bytes have come; never returns where they do not. */
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

/** Sends and waits for the headers alone. */
export async function open(target: Target, body: Body, options: WireOptions = {}): Promise<OpenAnswer> {
  const request = send(target, body, options);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return new OpenAnswer(request, response);
}

/** The data of each event by the rules of server-sent events, [DONE] among them. */
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

/** The code of the error event that a stream ends with; undefined where it ends otherwise. */
export function lastErrorCode(body: Buffer): string | null | undefined {
  const last = eventsIn(body).at(-1);
  if (last === undefined || last === "[DONE]") return undefined;
  return JSON.parse(last).error?.code;
}

/** The code of one of our own errors. */
export function errorCode(answer: { readonly body: Buffer }): string {
  return JSON.parse(answer.body.toString()).error.code;
}
