import { request as requestHttp, type ClientRequest, type IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP } from "node:net";
import type { Clock } from "../../ports/clock.ts";
import type { SendResult, WebhookRequest, WebhookSender } from "../../ports/webhook-sender.ts";
import { AddressRefused, guardedLookup, hostOf, addressFault } from "./connect.ts";

/** Time from the DNS lookup to the head of the response. Milliseconds. */
const timeoutMs = 10_000;
/** Bytes read of a response, so that the receiver can end it; the rest is cut off. */
const answerBytesMax = 65_536;

/** Sends with node:http, each message on its own connection, whose address was checked. */
export function createWebhookSender({ clock }: { readonly clock: Clock }): WebhookSender {
  const running = new Set<() => void>();
  let ended = false;
  return {
    send: (request) =>
      new Promise((resolve) => {
        if (ended) return resolve(undefined);
        const url = new URL(request.url);
        const host = hostOf(url);
        const refused = isIP(host) === 0 ? null : addressFault(url, request.rule, [host]);
        if (refused !== null) return resolve(failure(refused));
        const outgoing = open(url, request);
        const timer = clock.after(timeoutMs, () => {
          resolve({ ok: false, error: `no answer within ${timeoutMs / 1000} s`, retryAfterMs: null });
          outgoing.destroy();
        });
        const breakOff = () => {
          resolve(undefined);
          timer.cancel();
          outgoing.destroy();
        };
        running.add(breakOff);
        outgoing.on("response", (answer) => {
          resolve(judge(answer, clock));
          discard(answer);
        });
        outgoing.on("error", (error) => resolve(failure(error)));
        outgoing.on("close", () => {
          // Also without an error: the connection ends when a receiver switches protocols.
          resolve({ ok: false, error: "the connection closed without an answer", retryAfterMs: null });
          timer.cancel();
          running.delete(breakOff);
        });
        // As bytes: a text would be sent together with the headers, in its own encoding.
        outgoing.end(Buffer.from(request.body));
      }),
    async [Symbol.asyncDispose]() {
      ended = true;
      for (const breakOff of running) breakOff();
    },
  };
}

function open(url: URL, { rule, headers, body }: WebhookRequest): ClientRequest {
  const start = url.protocol === "https:" ? requestHttps : requestHttp;
  return start(url, {
    method: "POST",
    agent: false,
    lookup: guardedLookup(url, rule),
    headers: { ...headers, "content-length": Buffer.byteLength(body), "user-agent": "farebox" },
  });
}

function judge({ statusCode = 0, headers }: IncomingMessage, clock: Clock): SendResult {
  if (statusCode >= 200 && statusCode < 300) return { ok: true };
  const isRedirect = statusCode >= 300 && statusCode < 400;
  const error = isRedirect ? `redirected (${statusCode}), which is not followed` : `answered with status ${statusCode}`;
  return { ok: false, error, retryAfterMs: retryAfter(headers["retry-after"], clock) };
}

/** Seconds or a date. */
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

/** The error's code alone: its message may hold the receiver's name. */
function failure(error: Error): SendResult {
  if (error instanceof AddressRefused) return { ok: false, error: error.message, retryAfterMs: null };
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return { ok: false, error: /^[A-Z0-9_]{1,64}$/.test(code) ? code : "the connection failed", retryAfterMs: null };
}
