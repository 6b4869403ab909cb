import { request as requestHttp, type ClientRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP } from "node:net";
import { hostOf } from "../../core/addresses.ts";
import { connectDirectly, type ChooseProxy } from "../../core/outbound-proxy.ts";
import type { Clock } from "../../ports/clock.ts";
import type { SendResult, WebhookRequest, WebhookSender } from "../../ports/webhook-sender.ts";
import { ProxyFailed, type Connected } from "../tunnel.ts";
import { connectChecked, type CheckedConnectionOptions } from "./checked-connection.ts";
import { AddressRefused, guardedLookup, addressFault } from "./guarded-lookup.ts";

/** Longest time from the DNS lookup to the end of the response, in milliseconds. The result needs only its head. */
const timeoutMs = 10_000;
/**
 * Largest number of bytes of a response body to read. Farebox ignores the body. It reads a short one so that the
 * receiver can finish, and closes the connection if the body is longer.
 */
const answerBytesMax = 65_536;

/** Sends messages with node:http. Opens a separate connection to a checked address for each message. */
export function createWebhookSender({
  clock,
  choose = connectDirectly,
}: {
  readonly clock: Clock;
  /** Chooses a proxy; none by default. */
  readonly choose?: ChooseProxy;
}): WebhookSender {
  const interrupts = new Set<() => void>();
  let ended = false;
  return {
    send: (request) =>
      new Promise((resolve) => {
        if (ended) return resolve(undefined);
        const url = new URL(request.url);
        const host = hostOf(url);
        const refused = isIP(host) === 0 ? null : addressFault(url, request.rule, [host]);
        if (refused !== null) return resolve(failure(refused));
        const ending = new AbortController();
        const outgoing = open(url, request, { clock, choose, signal: ending.signal });
        const end = (result: SendResult | undefined) => {
          resolve(result);
          timer.cancel();
          interrupts.delete(interrupt);
          ending.abort();
          outgoing.destroy();
        };
        const timer = clock.after(timeoutMs, () =>
          end({ ok: false, error: `no answer within ${timeoutMs / 1000} s`, retryAfterMs: null }),
        );
        const interrupt = () => end(undefined);
        interrupts.add(interrupt);
        outgoing.on("response", (answer) => {
          resolve(resultOf(answer, clock));
          discard(answer);
        });
        outgoing.on("error", (error) => end(failure(error)));
        // If a receiver switches protocols, the connection ends without an error.
        outgoing.on("close", () =>
          end({ ok: false, error: "the connection closed without an answer", retryAfterMs: null }),
        );
        // Sends the body as bytes. With a string, Node would also encode the headers as UTF-8.
        outgoing.end(Buffer.from(request.body));
      }),
    async [Symbol.asyncDispose]() {
      ended = true;
      for (const interrupt of interrupts) interrupt();
    },
  };
}

function open(url: URL, { rule, headers, body }: WebhookRequest, options: CheckedConnectionOptions): ClientRequest {
  const start = url.protocol === "https:" ? requestHttps : requestHttp;
  const connection: RequestOptions =
    options.choose(url) === null
      ? { agent: false, lookup: guardedLookup(url, rule) }
      : {
          // Without an agent, Node assumes port 80 and would add another port to the header `host`.
          defaultPort: url.protocol === "https:" ? 443 : 80,
          createConnection(_, callback) {
            connectChecked(url, rule, options, callback as Connected);
            return undefined;
          },
        };
  return start(url, {
    method: "POST",
    ...connection,
    headers: { ...headers, "content-length": Buffer.byteLength(body), "user-agent": "farebox" },
  });
}

function resultOf({ statusCode = 0, headers }: IncomingMessage, clock: Clock): SendResult {
  if (statusCode >= 200 && statusCode < 300) return { ok: true };
  const isRedirect = statusCode >= 300 && statusCode < 400;
  const error = isRedirect
    ? `redirected (${statusCode}); Farebox does not follow redirects`
    : `answered with status ${statusCode}`;
  return { ok: false, error, retryAfterMs: retryAfter(headers["retry-after"], clock) };
}

/**
 * Returns the pause that a `retry-after` header requests, in milliseconds; null if it requests none. The header states
 * seconds or a date.
 */
function retryAfter(text: string | undefined, clock: Clock): number | null {
  if (text === undefined) return null;
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(at - clock.now(), 0);
}

function discard(answer: IncomingMessage): void {
  let bytes = 0;
  answer.on("error", () => {});
  answer.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > answerBytesMax) answer.destroy();
  });
}

/**
 * Returns the result for an error. The result states only the code of most errors, because the message may contain the
 * receiver's name.
 */
function failure(error: Error): SendResult {
  if (error instanceof AddressRefused || error instanceof ProxyFailed)
    return { ok: false, error: error.message, retryAfterMs: null };
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return { ok: false, error: /^[A-Z0-9_]{1,64}$/.test(code) ? code : "the connection failed", retryAfterMs: null };
}
