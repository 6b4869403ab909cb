import { describe, expect, it } from "vitest";
import type { BilledCall } from "../../../src/sandbox/billing.ts";
import type { AtGateway, Row, Window } from "../../system/crash/ledger-snapshot.ts";
import type { Sent } from "../../system/crash/load.ts";
import { brokenPromises, type Aftermath } from "../../system/crash/promises.ts";

const row: Row = {
  seq: 1n,
  id: "id-1",
  number: "r1-0",
  state: "posted",
  source: "reported",
  reason: null,
  hold: 900n,
  cost: 500n,
  prompt: 10n,
  completion: 20n,
  task: null,
};
const sent: Sent = {
  number: "r1-0",
  kind: "plain",
  id: "id-1",
  status: 200,
  code: null,
  startedAt: 0,
  endedAt: 1,
  end: "whole",
  cost: 500n as Sent["cost"],
  usage: { prompt_tokens: 10, completion_tokens: 20 },
  received: 0,
  task: null,
};
const billed: AtGateway = { number: "r1-0", bill: { cost: 500n } as BilledCall };
const window: Window = { budget: "all", mode: "hard", limit: 1000n, spent: 500n, held: 0n };
const crashed = { source: "assumed", reason: "crash", cost: 900n };

/** Checks a correct state of one request with these changes, and returns the broken promises. */
function broken(
  change: { row?: Partial<Row> | null; sent?: Partial<Sent>; bill?: bigint; window?: Partial<Window> } & Partial<
    Omit<Aftermath, "sent">
  >,
): string[] {
  const { row: rowChange = {}, sent: sentChange = {}, bill, window: windowChange = {}, ...rest } = change;
  return brokenPromises({
    death: "killed",
    sent: [{ ...sent, ...sentChange }],
    file: {
      rows: rowChange === null ? [] : [{ ...row, ...rowChange }],
      windows: [{ ...window, ...windowChange }],
      heldByTasks: 0n,
    },
    gateway: [bill === undefined ? billed : { ...billed, bill: { cost: bill } as BilledCall }],
    verification: { charges: 1, differences: [] },
    limits: new Map([["all", 1000n]]),
    ...rest,
  });
}

describe("the check after a crash", () => {
  it("reports nothing for a settled request, one that the crash left assumed, a running task and a refusal", () => {
    expect(broken({})).toEqual([]);
    expect(broken({ row: crashed })).toEqual([]);
    expect(
      broken({
        row: { state: "pending", source: null, cost: null, task: "t-1" },
        sent: { kind: "task", task: "t-1", cost: null },
      }),
    ).toEqual([]);
    expect(broken({ row: null, sent: { status: 402, end: "refused", cost: null }, gateway: [] })).toEqual([]);
  });

  it.each([
    [
      "a request at the gateway without a row",
      { row: null, sent: { end: "unanswered", status: null, id: null } },
      "has no row",
    ],
    ["an answer without a row", { row: null, gateway: [] }, "was answered, and has no row"],
    ["a hold whose owner is dead", { row: { state: "pending", source: null, cost: null } }, "its owner is dead"],
    [
      "a cost that differs from what the client was told",
      { row: { cost: 501n }, bill: 501n },
      "was told that it cost 500",
    ],
    ["tokens that differ from what the client was told", { row: { completion: 21n } }, "was told 10 and 20 tokens"],
    [
      "an assumed charge below the cost that the client was told",
      { row: { ...crashed, cost: 400n }, bill: 400n },
      "was told that it cost 500",
    ],
    ["an assumed charge below the bill", { row: { ...crashed, cost: 900n }, bill: 901n }, "was billed 901"],
    ["an answered request that SIGTERM left assumed", { death: "inPeace", row: crashed }, "was answered whole"],
    [
      "a stream that SIGTERM cut",
      { death: "inPeace", sent: { kind: "stream", end: "cut" } },
      "was cut although there was time",
    ],
    [
      "a request that SIGTERM dropped",
      { death: "inPeace", sent: { end: "unanswered", status: null } },
      "taken in, and not answered",
    ],
    ["a charge for a refused request", { sent: { status: 402, end: "refused" } }, "was refused, and has a row"],
    [
      "a charge that is voided but billed",
      { row: { state: "voided", source: null, cost: null }, sent: { kind: "trouble" } },
      "was billed 500",
    ],
    [
      "a cut stream that is charged below what its client read",
      { row: { source: "partial", cost: 24_999_999n }, sent: { end: "left", received: 5 }, bill: 10n ** 9n },
      "its client read 5 tokens",
    ],
    [
      "a task that the client has but the ledger lacks",
      { row: crashed, sent: { kind: "task", task: "t-1" } },
      "was told the task t-1",
    ],
    [
      "a task that is charged below the bill",
      { row: { task: "t-1", cost: 400n }, sent: { kind: "task", task: "t-1" }, bill: 500n },
      "was billed 500",
    ],
    ["a client that still waits", { sent: { end: "open" } }, "still waits"],
    ["a budget beyond its limit", { window: { spent: 1001n } }, "over its limit"],
    ["money still held", { window: { held: 1n } }, "still holds 1"],
    ["a lost change of a budget", { window: { limit: 900n } }, "was acknowledged"],
    [
      "a sum that the verification finds wrong",
      { verification: { charges: 1, differences: [{ kind: "window", id: "w", expected: "1", found: "2" }] } },
      "verify:",
    ],
  ] as const)("reports %s", (_, change, words) => {
    expect(broken(change as Parameters<typeof broken>[0]).join("\n")).toContain(words);
  });

  it("reports two rows of one request", () => {
    expect(broken({ file: { rows: [row, { ...row, seq: 2n }], windows: [window], heldByTasks: 0n } })).toEqual([
      "r1-0 has two rows",
    ]);
  });
});
