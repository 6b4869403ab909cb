import { expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import { meteredRequest, type RequestSteps } from "../../../src/request/metered-request.ts";
import { createRateLimiter } from "../../../src/request/rate-limits.ts";
import type { Posting } from "../../../src/ports/ledger.ts";
import { silentLog } from "../../support/captured-log.ts";
import type { Exchange } from "../../../src/ports/exchange.ts";
import { chatCompletions, readChatRequest } from "../../../src/wire/endpoints/chat-completions.ts";

it("a request that fails inside Farebox is settled at once, and its summary states the stream and the error", async () => {
  const body = Buffer.from('{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}');
  const read = readChatRequest(body);
  if (!read.ok) throw new Error("the request is sound");
  const posted: Posting[] = [];
  const works: Promise<void>[] = [];
  let released = 0;
  const quote = {
    request: read.request,
    at: 0,
    model: undefined,
    models: [{ name: "m", model: undefined }],
    modelIds: ["m"],
    hold: null,
    growth: null,
    bounded: false,
  };
  const steps = {
    authenticate: async () => ({ ok: true, key: null, team: null, caller: { key: "", team: null } }),
    limiter: createRateLimiter({
      clock: { now: () => 0, monotonic: () => 0, after: () => ({ cancel: () => undefined }) },
    }),
    balanceGuard: async () => null,
    pricer: { quote: () => ({ ok: true, quote }) },
    tracing: null,
    idempotencySecret: Buffer.alloc(32),
    forwarder: { forward: () => Promise.reject(new Error("a bug")) },
    ledger: {
      hold: async () => ({ ok: true, room: null, keyRoom: null }),
      post: async (_id: string, posting: Posting) => {
        posted.push(posting);
        return { ok: true, first: true, state: "posted", cost: null, overage: 0n };
      },
    },
    clock: { now: () => 0, monotonic: () => 0 },
    events: { admitted: () => undefined, posted: () => undefined, requestStarted: () => undefined },
    log: silentLog,
    streamUsage: "pass",
    background: (work: Promise<void>) => void works.push(work),
  } as unknown as RequestSteps;
  const exchange = {
    id: "1",
    query: "",
    startedAt: 0,
    clientGone: false,
    span: null,
    status: null,
    header: () => undefined,
    headers: () => [],
    readBody: async () => ({ ok: true, bytes: new BodyBytes([body]), release: () => released++ }),
  } as unknown as Exchange;
  const summary = await meteredRequest(steps, chatCompletions)(exchange);
  expect(summary).toMatchObject({ stream: true, error: new Error("a bug") });
  await Promise.all(works);
  expect(posted).toMatchObject([{ source: "assumed", reason: "internal_error" }]);
  expect(released).toBe(1);
});
