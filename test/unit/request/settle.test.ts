import { describe, expect, it } from "vitest";
import type { Key } from "../../../src/core/keys.ts";
import { usd, type PicoUsd } from "../../../src/core/money.ts";
import type { Outcome } from "../../../src/core/settlement.ts";
import { noTokens, unchanged } from "../../../src/core/usage.ts";
import type { ChargePosted, Events } from "../../../src/ports/events.ts";
import type { Charging, SettleResult } from "../../../src/ports/ledger.ts";
import { settleCharge, type SettleParams } from "../../../src/request/settle.ts";
import { memoryStore } from "../../support/ledger-fixtures.ts";
import { captureLog, type CapturedLine } from "../../support/captured-log.ts";
import { only } from "../../support/only.ts";
import { model, noon, pinned, someone } from "./examples.ts";

const end = { at: noon, status: 200, servedModel: null, gatewayRequestId: null, durationMs: 1, firstTokenMs: null };
const price = pinned();
const hold = 1_000n as PicoUsd;
const reported: Outcome = { kind: "reported", tokens: { ...noTokens, input: 100, output: 3 }, clamped: false };
const counted = { tokens: { ...noTokens, input: 100 }, errorFactor: unchanged, hiddenTokens: 0 };
const cut = { kind: "cut", promptTokens: 100, deliveredTokens: 3, errorFactor: unchanged, hiddenTokens: 0 } as const;

/** Settles charges with a ledger. `posted` contains the events, `lines` the log. */
function settling(methods: Partial<Charging>) {
  const ledger = only<Charging>(methods);
  const posted: ChargePosted[] = [];
  const log = captureLog();
  const deps = {
    ledger,
    events: { posted: (event: ChargePosted) => posted.push(event) } as unknown as Events,
    log,
  };
  const settleAs = (outcome: Outcome, more: Partial<SettleParams> = {}) =>
    settleCharge(deps, {
      charge: { id: "c1", route: "/v1/chat/completions", hold, price: price.version },
      quote: { model: model({ group: "general" }) },
      who: someone,
      outcome,
      end,
      ...more,
    });
  return { settleAs, posted, lines: log.lines };
}

/** Acts like `settling`, with the reference ledger and a hold for the charge "c1". */
async function held(amount: PicoUsd | null = hold) {
  const { ledger } = memoryStore();
  await ledger.hold({
    id: "c1",
    kind: "request",
    at: noon,
    caller: someone.caller,
    route: "/v1/chat/completions",
    model: "plain",
    group: null,
    stream: false,
    price: amount === null ? null : price,
    amount,
    bounded: true,
    tags: {},
    retry: 0,
  });
  return { ...settling(ledger), ledger };
}

const plainEvent = {
  id: "c1",
  key: null,
  route: "/v1/chat/completions",
  model: "plain",
  group: "general",
  source: "reported",
  cost: 400n,
  listCost: 400n,
  overage: 0n,
  tokens: { ...noTokens, input: 100, output: 3 },
  doubts: [],
};

describe("a settlement that posts", () => {
  it("is announced once with the ledger's amount, and logs nothing if the gateway reported the usage", async () => {
    const { settleAs, posted, lines, ledger } = await held();
    await settleAs(reported);
    await settleAs(reported);
    expect(posted).toEqual([plainEvent]);
    expect(lines).toEqual([]);
    expect(await ledger.charge("c1")).toMatchObject({ state: "posted", cost: 400n, endedAt: noon });
  });

  it("names the key and its team, and no unknown model", async () => {
    const { settleAs, posted } = await held();
    const key = { id: "k1", name: "alice", team: "red", digest: "not for events" } as Key;
    await settleAs(
      { ...reported, doubts: ["service_tier"] },
      { who: { ...someone, key }, quote: { model: undefined } },
    );
    expect(posted).toEqual([
      {
        ...plainEvent,
        key: { id: "k1", name: "alice", team: "red" },
        model: null,
        group: null,
        doubts: ["service_tier"],
      },
    ]);
  });

  it("is announced with the amount that the ledger posted, not the requested one", async () => {
    const { settleAs, posted } = await held(7n as PicoUsd);
    await settleAs({ kind: "unknown", reason: "timeout" });
    expect(posted).toMatchObject([{ source: "assumed", cost: 7n, listCost: hold }]);
  });

  const line = { request_id: "c1", clamped: false, doubts: [], overage: "0", reason: null };
  it.each<[string, Outcome, object | null]>([
    ["assumed", { kind: "unknown", reason: "timeout" }, { ...line, source: "assumed", reason: "timeout" }],
    [
      "cut by the gateway",
      { ...cut, reason: "gateway_reset" },
      { ...line, source: "partial", reason: "gateway_reset" },
    ],
    ["cut by the client", { ...cut, reason: "client_left" }, null],
    [
      "read from a usage that contradicts itself",
      { ...reported, clamped: true },
      { ...line, source: "reported", clamped: true },
    ],
    [
      "above its hold",
      { ...reported, tokens: { ...noTokens, output: 11 } },
      { ...line, source: "reported", overage: "100" },
    ],
    ["counted", { kind: "counted", ...counted }, null],
    ["equal to its hold", { ...reported, tokens: { ...noTokens, output: 10 } }, null],
  ])("has a log line only for an uncertain cost or an overage: %s", async (_, outcome, fields) => {
    const { settleAs, posted, lines } = await held();
    await settleAs(outcome);
    expect(posted).toHaveLength(1);
    const expected: CapturedLine[] =
      fields === null
        ? []
        : [
            {
              level: "warn",
              fields: fields as CapturedLine["fields"],
              message: "settled with an uncertain cost or an overage",
            },
          ];
    expect(lines).toEqual(expected);
  });
});

it("a settlement that voids is not announced", async () => {
  const { settleAs, posted, lines, ledger } = await held();
  await settleAs({ kind: "notSent", reason: "client_left" });
  expect(await ledger.charge("c1")).toMatchObject({ state: "voided", reason: "client_left", cost: null });
  expect([posted, lines]).toEqual([[], []]);
});

describe("a ledger", () => {
  const refused = new Error("the amount is beyond 64 bits");
  const done: SettleResult = { ok: true, first: true, state: "posted", cost: hold, overage: usd("0") };

  it("that refuses the amount gets the hold instead", async () => {
    const reasons: (string | null)[] = [];
    const { settleAs, posted, lines } = settling({
      async post(_, { reason }) {
        reasons.push(reason);
        if (reason === null) throw refused;
        return done;
      },
      void: async () => done,
    });
    await settleAs(reported);
    expect(reasons).toEqual([null, "not_recordable"]);
    expect(posted).toMatchObject([{ cost: hold, source: "assumed", listCost: hold }]);
    expect(lines).toEqual([
      { level: "error", fields: { request_id: "c1", err: refused }, message: "the ledger refused a settlement" },
      {
        level: "warn",
        fields: {
          request_id: "c1",
          source: "assumed",
          reason: "not_recordable",
          clamped: false,
          doubts: [],
          overage: "0",
        },
        message: "settled with an uncertain cost or an overage",
      },
    ]);
  });

  const unsettled = "a charge could not be settled; recovery will post its hold";

  it("that also refuses the hold leaves the charge to recovery", async () => {
    const { settleAs, posted, lines } = settling({
      post: () => Promise.reject(refused),
      void: () => Promise.reject(refused),
    });
    await settleAs(reported);
    expect(posted).toEqual([]);
    expect(lines.map(({ level, message }) => [level, message])).toEqual([
      ["error", "the ledger refused a settlement"],
      ["error", "the ledger refused a settlement"],
      ["error", unsettled],
    ]);
    expect(lines.map(({ fields }) => fields)).toEqual([
      { request_id: "c1", err: refused },
      { request_id: "c1", err: refused },
      { request_id: "c1", reason: undefined },
    ]);
  });

  it("that does not know the charge leaves it to recovery", async () => {
    const unknown: SettleResult = { ok: false, reason: "no_such_charge" };
    const { settleAs, posted, lines } = settling({ post: async () => unknown, void: async () => unknown });
    await settleAs(reported);
    expect(posted).toEqual([]);
    expect(lines).toEqual([
      { level: "error", fields: { request_id: "c1", reason: "no_such_charge" }, message: unsettled },
    ]);
  });
});
