import { expect, it } from "vitest";
import { BodyBytes } from "../../../src/ports/exchange.ts";
import { meteredRequest, type RequestSteps } from "../../../src/request/metered-request.ts";
import { createRateLimiter } from "../../../src/request/rate-limits.ts";
import type { Events } from "../../../src/ports/events.ts";
import type { Posting } from "../../../src/ports/ledger.ts";
import type { Endpoint } from "../../../src/wire/endpoint.ts";
import { captureLog } from "../../support/captured-log.ts";
import type { Exchange } from "../../../src/ports/exchange.ts";
import { chatCompletions, readChatRequest } from "../../../src/wire/endpoints/chat-completions.ts";

const fail = (message: string) => (): never => {
  throw new Error(message);
};

/** Sends a streamed request through the pipeline. `forward` returns how it ended; it fails unless given. */
async function requested(
  changes: Partial<Endpoint> = {},
  listeners: Partial<Events> = {},
  forward: () => object = fail("is sent"),
) {
  const body = Buffer.from('{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}');
  const read = readChatRequest(body);
  if (!read.ok) throw new Error("the request is sound");
  const posted: Posting[] = [];
  const works: Promise<void>[] = [];
  let releases = 0;
  const log = captureLog();
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
    tagHeaders: [],
    idempotencySecret: Buffer.alloc(32),
    ledger: {
      hold: async () => ({ ok: true, room: null, keyRoom: null }),
      post: async (_id: string, posting: Posting) => {
        posted.push(posting);
        return { ok: true, first: true, state: "posted", cost: null, overage: 0n };
      },
    },
    clock: { now: () => 0, monotonic: () => 0 },
    events: { admitted: () => undefined, posted: () => undefined, requestStarted: () => undefined, ...listeners },
    log,
    forwarder: { forward: async () => forward() },
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
    readBody: async () => ({ ok: true, bytes: new BodyBytes([body]), release: () => releases++ }),
  } as unknown as Exchange;
  const summary = await meteredRequest(steps, { ...chatCompletions, ...changes })(exchange);
  await Promise.all(works);
  return { summary, posted, releases, lines: log.lines };
}

it.each<[string, Partial<Endpoint>, Partial<Events>]>([
  ["is reported", {}, { admitted: fail("is reported") }],
  ["is changed before it is sent", { askForUsage: fail("is changed before it is sent") }, {}],
  ["is sent", {}, {}],
])("a request that fails inside Farebox when it %s is settled at once", async (failure, changes, listeners) => {
  const { summary, posted, releases } = await requested(changes, listeners);
  expect(summary).toMatchObject({ stream: true, error: new Error(failure) });
  expect(posted).toMatchObject([{ source: "assumed", reason: "internal_error" }]);
  expect(releases).toBe(1);
});

const termsThatFail = {
  get otherModels() {
    return fail("a bug")();
  },
};

it.each<[string, Partial<Events>, (() => object)?]>([
  ["before the answer is metered", {}, () => ({ ending: { kind: "unknown", reason: "x" }, terms: termsThatFail })],
  ["after the charge is posted", { posted: fail("a bug") }],
])("a settlement that fails inside Farebox %s is logged, and frees the memory of the body", async (_, ...failing) => {
  const { releases, lines } = await requested({}, ...failing);
  expect(lines).toMatchObject([
    {
      level: "error",
      fields: { request_id: "1", err: new Error("a bug") },
      message: "a settlement failed; if its hold is still pending, recovery will post it",
    },
  ]);
  expect(releases).toBeGreaterThan(0);
});
