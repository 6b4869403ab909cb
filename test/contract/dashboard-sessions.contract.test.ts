import { describe, expect, it } from "vitest";
import type { DashboardSession } from "../../src/ports/stores.ts";
import { ledgerKinds, noon, type LedgerKind } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const session = (digest: string, more: Partial<DashboardSession> = {}): DashboardSession => ({
  digest,
  kind: "key",
  holder: "k1",
  secret: "s1",
  createdAt: noon,
  expiresAt: noon + 1000,
  ...more,
});

describe.each(ledgerKinds)("dashboard sessions in $name", ({ newHome }: LedgerKind) => {
  it("are stored until they end, are replaced or expire", async () => {
    await using home = newHome(manualClock(noon));
    const before = await home.open();
    const { dashboardSessions } = before;
    for (const digest of ["a", "b", "c"]) expect(await dashboardSessions.create(session(digest), null)).toBe("stored");
    const admin = session("d", { kind: "admin", holder: "", secret: "s2", expiresAt: noon + 5000 });
    await dashboardSessions.create(admin, "a");
    expect([await dashboardSessions.end("b"), await dashboardSessions.end("b")]).toEqual([true, false]);
    await before[Symbol.asyncDispose]();
    await using store = await home.open();
    const found = (digest: string) => store.dashboardSessions.find(digest);
    expect([await found("a"), await found("b")]).toEqual([undefined, undefined]);
    expect([await found("c"), await found("d")]).toEqual([session("c"), admin]);
    await store.dashboardSessions.create(session("e", { createdAt: noon + 1000 }), null);
    expect([await found("c"), await found("d")]).toEqual([undefined, admin]);
  });

  it("are limited to 20 per secret, by ending the oldest", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    const { dashboardSessions } = store;
    await dashboardSessions.create(session("other", { secret: "s2" }), null);
    for (let index = 0; index <= 20; index++) await dashboardSessions.create(session(`own-${index}`), null);
    const left = await Promise.all(
      ["other", "own-0", "own-1", "own-20"].map(async (digest) => (await dashboardSessions.find(digest)) !== undefined),
    );
    expect(left).toEqual([true, false, true, true]);
  });

  it("make no process reload its keys when one begins or ends", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    let changes = 0;
    store.changes.onChange(() => changes++);
    await store.dashboardSessions.create(session("a"), null);
    await store.dashboardSessions.create(session("b"), "a");
    await store.dashboardSessions.end("b");
    expect(changes).toBe(0);
  });
});
