import { describe, expect, it } from "vitest";
import { picoUsdMax, type PicoUsd } from "../../../src/core/money.ts";
import type { Outcome } from "../../../src/ledger/commands.ts";
import { packOutcomes, unpackOutcomes } from "../../../src/ledger/sqlite/packed-outcomes.ts";

const amount = (value: bigint) => value as PicoUsd;
const ended = { ok: true, first: true, state: "posted", cost: amount(5n), overage: amount(0n) } as const;

const outcomes: readonly Outcome[] = [
  { kind: "done", reply: { ok: true, room: amount(7n) } },
  { kind: "done", reply: ended },
  { kind: "done", reply: { ok: true, room: null } },
  { kind: "done", reply: { ...ended, cost: null, overage: amount(1n) } },
  { kind: "done", reply: { ...ended, first: false } },
  { kind: "done", reply: { ...ended, state: "voided", cost: null } },
  { kind: "done", reply: { ok: true, granted: amount(3n) } },
  { kind: "done", reply: { ok: false, reason: "not_bounded" } },
  { kind: "done", reply: { ok: false, reason: "no_such_charge" } },
  { kind: "done", reply: true },
  { kind: "done", reply: undefined },
  { kind: "done", reply: ["m1"] },
  { kind: "done", reply: 200 },
  { kind: "unavailable", message: "the disk is full" },
  { kind: "failed", message: "beyond 64 bits" },
  { kind: "done", reply: { ok: true, room: picoUsdMax } },
];

describe("outcomes that cross between threads", () => {
  it("arrive as they left, in their order", () => {
    const arrived = unpackOutcomes(structuredClone(packOutcomes(outcomes)));
    expect(arrived).toEqual(outcomes);
  });

  it("need no objects for holds and first postings", () => {
    const packed = packOutcomes([...outcomes.slice(0, 4), ...outcomes.slice(-1)]);
    expect(packed.filter((each) => typeof each === "object" && each !== null)).toEqual([]);
  });
});
