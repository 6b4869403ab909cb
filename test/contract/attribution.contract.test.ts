import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import type { ReportDimension, ReportQuery } from "../../src/ports/ledger.ts";
import type { Store } from "../../src/ledger/store.ts";
import { bob, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const hourMs = 3_600_000;
const span = { since: noon - 24 * hourMs, until: noon + 24 * hourMs };

async function spend({ ledger }: Store, id: string, input: number, more: Parameters<typeof holdOf>[2]): Promise<void> {
  await ledger.hold(holdOf(id, usd("1"), more));
  await ledger.post(id, posting(input, 0), endAt(noon));
}

async function fill(store: Store): Promise<void> {
  await spend(store, "a", 1000, { tags: { feature: "search", env: "prod" } });
  await spend(store, "b", 2000, { tags: { feature: "search" }, caller: bob, at: noon + 2 * hourMs });
  await spend(store, "c", 4000, { tags: { feature: "chat", constructor: "x" }, retry: 1 });
  await spend(store, "d", 8000, {});
  await store.ledger.hold(holdOf("pending", usd("1"), { tags: { feature: "search" } }));
  await store.ledger.adjust("a", { id: "fix", at: noon, amount: usd("0.5"), why: "late fee", by: "root" });
}

describe.each(ledgerKinds)("attribution in the ledger: $name", (kind) => {
  const rows = async (store: Store, by: ReportDimension[], query: Omit<ReportQuery, "by"> = span) =>
    (await store.ledger.report({ by, ...query })).map(({ dimensions, requests, retries, tokens, cost }) => [
      ...Object.values(dimensions),
      requests,
      retries,
      tokens.input,
      cost,
    ]);

  it("adds up by the values of tags, alone and among other dimensions; what has none is null", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    await fill(store);
    expect(await rows(store, ["tag:feature"])).toEqual([
      [null, 1, 0, 8000, usd("0.008")],
      ["chat", 1, 1, 4000, usd("0.004")],
      ["search", 2, 0, 3000, usd("0.503")],
    ]);
    expect(await rows(store, ["key", "tag:env", "tag:feature"])).toEqual([
      ["k-alice", null, null, 1, 0, 8000, usd("0.008")],
      ["k-alice", null, "chat", 1, 1, 4000, usd("0.004")],
      ["k-alice", "prod", "search", 1, 0, 1000, usd("0.501")],
      ["k-bob", null, "search", 1, 0, 2000, usd("0.002")],
    ]);
    expect(await rows(store, ["day", "hour", "tag:constructor"])).toEqual([
      ["2026-11-20", "2026-11-20T12:00:00.000Z", null, 2, 0, 9000, usd("0.509")],
      ["2026-11-20", "2026-11-20T12:00:00.000Z", "x", 1, 1, 4000, usd("0.004")],
      ["2026-11-20", "2026-11-20T14:00:00.000Z", null, 1, 0, 2000, usd("0.002")],
    ]);
    expect(await rows(store, ["tag:unused"])).toEqual([[null, ...((await rows(store, []))[0] ?? [])]]);
  });

  it("rounds a span outwards as any report does", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    await fill(store);
    for (const [since, until] of [
      [noon + 1, noon + 2],
      [noon + 2 * hourMs, noon + 2 * hourMs],
      [noon - hourMs, noon],
    ] as const) {
      const tagged = await store.ledger.report({ by: ["tag:none"], since, until });
      expect(tagged.map((row) => ({ ...row, dimensions: {} }))).toEqual(
        await store.ledger.report({ by: [], since, until }),
      );
    }
    expect(await store.ledger.prunedUntil()).toBeNull();
  });
});
