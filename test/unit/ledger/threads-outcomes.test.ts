import { describe, expect, it } from "vitest";
import { noRaises } from "../../../src/core/budget.ts";
import { everyRequest } from "../../../src/core/scope.ts";
import { picoUsdMax, type PicoUsd } from "../../../src/core/money.ts";
import type { Outcome } from "../../../src/ledger/commands.ts";
import { packOutcomes, unpackOutcomes } from "../../../src/ledger/sqlite/threads.ts";

const amount = (value: bigint) => value as PicoUsd;
const settled = { ok: true, first: true, state: "posted", cost: amount(5n), overage: amount(0n) } as const;

const window = {
  budget: {
    id: "all/1d",
    scope: everyRequest,
    period: "1d",
    mode: "hard",
    limit: amount(9n),
    warnPercent: null,
  },
  subject: "",
  start: 1,
  end: 2,
  spent: amount(4n),
  held: amount(5n),
  raises: noRaises,
} as const;
const refusal = (needed: bigint, exhausted: boolean): Outcome => ({
  kind: "done",
  reply: { ok: false, reason: "no_room", shortage: { window, needed: amount(needed), exhausted } },
});

const outcomes: readonly Outcome[] = [
  { kind: "done", reply: { ok: true, room: amount(7n), keyRoom: null } },
  { kind: "done", reply: settled },
  { kind: "done", reply: { ok: true, room: null, keyRoom: null } },
  { kind: "done", reply: { ...settled, cost: null, overage: amount(1n) } },
  { kind: "done", reply: { ...settled, first: false } },
  { kind: "done", reply: { ...settled, state: "voided", cost: null } },
  { kind: "done", reply: { ok: true, granted: amount(3n) } },
  { kind: "done", reply: { ok: false, reason: "not_bounded" } },
  refusal(6n, true),
  refusal(1n, false),
  { kind: "done", reply: { ok: false, reason: "no_such_charge" } },
  { kind: "done", reply: true },
  { kind: "done", reply: undefined },
  { kind: "done", reply: ["m1"] },
  { kind: "done", reply: 200 },
  { kind: "unavailable", message: "the disk is full" },
  { kind: "failed", message: "beyond 64 bits" },
  { kind: "done", reply: { ok: true, room: picoUsdMax, keyRoom: amount(8n) } },
];

describe("outcomes that cross between threads", () => {
  it("arrive unchanged and in order", () => {
    const arrived = unpackOutcomes(structuredClone(packOutcomes(outcomes)));
    expect(arrived).toEqual(outcomes);
  });

  it("need no objects for holds and first postings", () => {
    const packed = packOutcomes([...outcomes.slice(0, 4), ...outcomes.slice(-1)]);
    expect(packed.filter((each) => typeof each === "object" && each !== null)).toEqual([]);
  });

  it("need one object for all refusals by a window", () => {
    const packed = packOutcomes(Array.from({ length: 100 }, (_, n) => refusal(BigInt(n), true)));
    expect([...new Set(packed)].filter((each) => typeof each === "object")).toEqual([window]);
  });
});
