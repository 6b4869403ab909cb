import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import type { ChargeQuery, ReportDimension, ReportQuery } from "../../src/ports/ledger.ts";
import type { Store } from "../../src/ports/stores.ts";
import { alice, bob, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";
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

  it("reports by tag values, alone and with other dimensions, with null for charges without the tag", async () => {
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

  it("reports by user and label, and filters charges by them", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const from = (caller: typeof alice, user: string | null, labels = {}) => ({ caller: { ...caller, user, labels } });
    await spend(store, "a", 1000, from(alice, "u_1", { env: "prod", tier: "a b" }));
    await spend(store, "b", 2000, from(bob, "u_1", { env: "test" }));
    await spend(store, "c", 4000, from(alice, "Zo\u00eb %", { env: "prod" }));
    await spend(store, "d", 8000, from(alice, null));
    await store.ledger.adjust("a", { id: "fix", at: noon, amount: usd("0.5"), why: "late fee", by: "root" });
    expect(await rows(store, ["user"])).toEqual([
      [null, 1, 0, 8000, usd("0.008")],
      ["Zo\u00eb %", 1, 0, 4000, usd("0.004")],
      ["u_1", 2, 0, 3000, usd("0.503")],
    ]);
    expect(await rows(store, ["label:env", "user", "label:tier"])).toEqual([
      [null, null, null, 1, 0, 8000, usd("0.008")],
      ["prod", "Zo\u00eb %", null, 1, 0, 4000, usd("0.004")],
      ["prod", "u_1", "a b", 1, 0, 1000, usd("0.501")],
      ["test", "u_1", null, 1, 0, 2000, usd("0.002")],
    ]);
    const ids = async (query: Partial<ChargeQuery>) =>
      (await store.ledger.charges({ limit: 10, ...query })).charges.map(({ id }) => id);
    expect(await ids({ user: "u_1" })).toEqual(["fix", "b", "a"]);
    expect(await ids({ user: "u_1", key: bob.key })).toEqual(["b"]);
    expect(await ids({ user: "Zo\u00eb %" })).toEqual(["c"]);
    expect(await ids({ user: "u" })).toEqual([]);
    expect(await ids({ label: { name: "env", value: "prod" }, user: "u_1" })).toEqual(["fix", "a"]);
    expect(await ids({ label: { name: "tier", value: "a b" } })).toEqual(["fix", "a"]);
    expect(await store.ledger.charge("a")).toMatchObject({ user: "u_1", labels: { env: "prod", tier: "a b" } });
  });

  it("rounds the span of a report by tag outwards, like that of every report", async () => {
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
