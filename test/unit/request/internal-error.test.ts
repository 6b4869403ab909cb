import { expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import { meteredRequest, type RequestSteps } from "../../../src/request/metered-request.ts";
import { createRateLimiter } from "../../../src/request/rate-limits.ts";
import type { Posting } from "../../../src/ports/ledger.ts";
import type { Endpoint } from "../../../src/wire/endpoint.ts";
import { silentLog } from "../../support/captured-log.ts";
import type { Exchange } from "../../../src/ports/exchange.ts";
import { chatCompletions, readChatRequest } from "../../../src/wire/endpoints/chat-completions.ts";

it.each<[string, Partial<Endpoint>]>([
  ["is sent", {}],
  [
    "is changed before it is sent",
    {
      askForUsage: () => {
        throw new Error("is changed before it is sent");
      },
    },
  ],
])("a request that fails inside Farebox when it %s is settled at once", async (failure, changes) => {
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
    forwarder: { forward: () => Promise.reject(new Error("is sent")) },
    streamUsage: "inject",
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
  const summary = await meteredRequest(steps, { ...chatCompletions, ...changes })(exchange);
  expect(summary).toMatchObject({ stream: true, error: new Error(failure) });
  await Promise.all(works);
  expect(posted).toMatchObject([{ source: "assumed", reason: "internal_error" }]);
  expect(released).toBe(1);
});
