import { once } from "node:events";
import type { ClientRequest, IncomingMessage } from "node:http";
import type { Sandbox } from "../../src/sandbox/options.ts";
import { eventsIn, readToEnd, send, type Body, type WireAnswer, type WireOptions } from "./wire-client.ts";

export interface SandboxRequestOptions extends WireOptions {
  readonly scenario?: string;
}

export const hello = { model: "gpt-4o", messages: [{ role: "user", content: "Say hello." }] };
export const helloStream = { ...hello, stream: true, stream_options: { include_usage: true } };

/** Begins a chat request. */
export function begin(
  sandbox: Sandbox,
  body: Body | undefined,
  { scenario, ...options }: SandboxRequestOptions = {},
): ClientRequest {
  const headers = { ...(scenario !== undefined && { "x-sandbox-scenario": scenario }), ...options.headers };
  return send({ url: sandbox.url, key: sandbox.apiKey }, body, { ...options, headers });
}

/** Sends a request and reads the answer to its end, however it ends; rejects if no headers arrive. */
export async function fetchFromSandbox(
  sandbox: Sandbox,
  body: Body | undefined,
  options: SandboxRequestOptions = {},
): Promise<WireAnswer> {
  const [response] = (await once(begin(sandbox, body, options), "response")) as [IncomingMessage];
  return readToEnd(response);
}

/** Part of an answer or a chunk that the tests use. */
interface Completion {
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

export function chunksIn(seen: { readonly body: Buffer }): Completion[] {
  return eventsIn(seen.body)
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
