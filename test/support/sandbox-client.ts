import { once } from "node:events";
import {
  request as httpRequest,
  type Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from "node:http";
import type { Sandbox } from "../../src/sandbox/server.ts";

/** One answer as a client received it; nothing is decoded or followed. */
export interface Seen {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Body as received, one item per read. */
  readonly chunks: readonly Buffer[];
  readonly body: Buffer;
  /** Null if the body is complete, otherwise the error's code. */
  readonly broken: string | null;
}

export interface Asked {
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly scenario?: string;
  readonly agent?: Agent;
}

export const hello = { model: "gpt-4o", messages: [{ role: "user", content: "Say hello." }] };
export const helloStream = { ...hello, stream: true, stream_options: { include_usage: true } };

/** Begins a chat request. */
export function begin(sandbox: Sandbox, body: unknown, asked: Asked = {}): ClientRequest {
  const request = httpRequest(`${sandbox.url}${asked.path ?? "/v1/chat/completions"}`, {
    method: asked.method ?? "POST",
    agent: asked.agent ?? false,
    headers: {
      authorization: `Bearer ${sandbox.apiKey}`,
      "content-type": "application/json",
      ...(asked.scenario === undefined ? {} : { "x-sandbox-scenario": asked.scenario }),
      ...asked.headers,
    },
  });
  request.on("error", () => undefined);
  request.end(body === undefined ? undefined : JSON.stringify(body));
  return request;
}

/** Sends a request and reads the answer to its end, however it ends; rejects if no headers arrive. */
export async function ask(sandbox: Sandbox, body: unknown, asked: Asked = {}): Promise<Seen> {
  const [response] = (await once(begin(sandbox, body, asked), "response")) as [IncomingMessage];
  return readAll(response);
}

export async function readAll(response: IncomingMessage): Promise<Seen> {
  const chunks: Buffer[] = [];
  let broken: string | null = null;
  try {
    for await (const chunk of response) chunks.push(chunk as Buffer);
  } catch (error) {
    broken = (error as NodeJS.ErrnoException).code ?? "error";
  }
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    chunks,
    body: Buffer.concat(chunks),
    broken,
  };
}

/** Part of an answer or a chunk that the tests use. */
export interface Completion {
  readonly id: string;
  readonly object: string;
  readonly model: string;
  readonly choices: readonly {
    readonly index: number;
    readonly message?: Message;
    readonly delta?: Message;
    readonly finish_reason: string | null;
    readonly logprobs: { readonly content: readonly { readonly token: string }[] } | null;
  }[];
  readonly usage?: {
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly total_tokens: number;
  } | null;
  readonly error?: { readonly message: string; readonly code: string | null };
}

interface Message {
  readonly role?: string;
  readonly content?: string | null;
  readonly tool_calls?: readonly { readonly function: { readonly name?: string; readonly arguments: string } }[];
}

export function completionIn(seen: { readonly body: Buffer }): Completion {
  return JSON.parse(seen.body.toString());
}

/** Returns the data of each event according to the rules of server-sent events, including [DONE]. */
export function eventsIn(seen: { readonly body: Buffer }): string[] {
  const events: string[] = [];
  let data: string[] = [];
  for (const line of seen.body.toString().split(/\r\n|\n|\r/)) {
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
    if (line === "" && data.length > 0) {
      events.push(data.join("\n"));
      data = [];
    }
  }
  return events;
}

export function chunksIn(seen: { readonly body: Buffer }): Completion[] {
  return eventsIn(seen)
    .filter((data) => data !== "[DONE]")
    .map((data) => JSON.parse(data));
}

export function textOf(chunks: readonly Completion[], index = 0): string {
  return chunks
    .flatMap((chunk) => chunk.choices)
    .filter((choice) => choice.index === index)
    .map((choice) => choice.delta?.content ?? "")
    .join("");
}
