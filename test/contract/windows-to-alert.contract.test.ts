import { describe, expect, it } from "vitest";
import { budgetAlerts } from "../../src/core/alerts.ts";
import { eachKeyScope, everyRequest, keyScope } from "../../src/core/scope.ts";
import { usd } from "../../src/core/money.ts";
import { opened } from "../support/ledger-contract.ts";
import { alice, bob, budget, endAt, holdOf, ledgerKinds, noon, posting } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("windows to alert in the ledger: $name", (kind) => {
  it("lists the windows that reached their threshold or limit, until their alerts are in the outbox", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const set = (more: Parameters<typeof budget>, warnPercent: number | null) =>
      ledger.setBudget({ ...budget(...more), warnPercent }, noon, "tester");
    await set([keyScope(alice.key), "1d", "1"], 50);
    await set([eachKeyScope(), "total", "0.4", "soft"], null);
    await set([everyRequest, "1mo", "2"], 30);
    const crossed = async (at = noon) =>
      (await ledger.windowsToAlert(at, 10)).map(({ budget: { id }, subject, spent }) => [id, subject, spent]);
    expect(await crossed()).toEqual([]);
    for (const caller of [alice, bob]) {
      await ledger.hold(holdOf(caller.key, usd("0.5"), { caller }));
      await ledger.post(caller.key, posting(caller === alice ? 500_000 : 100_000, 0), endAt(noon));
    }
    expect(await crossed()).toEqual([
      ["key:k-alice/1d", "", usd("0.5")],
      ["each-key/total", "k-alice", usd("0.5")],
      ["all/1mo", "", usd("0.6")],
    ]);
    expect(await crossed(noon + 86_400_000)).toEqual([
      ["each-key/total", "k-alice", usd("0.5")],
      ["all/1mo", "", usd("0.6")],
    ]);
    const putAlerts = async () => {
      const alerts = budgetAlerts(await ledger.windowsToAlert(noon, 10));
      await store.outbox.put(
        alerts.map(({ dedupeKey }) => ({
          id: dedupeKey,
          kind: "alert",
          target: null,
          dedupeKey,
          keyUntil: null,
          payload: "",
          createdAt: noon,
        })),
      );
      return alerts.length;
    };
    expect([await putAlerts(), await putAlerts()]).toEqual([3, 0]);
    await ledger.hold(holdOf("held", usd("0.5")));
    expect((await ledger.windowsToAlert(noon, 1))[0]).toMatchObject({ spent: usd("0.5"), held: usd("0.5") });
  });
});
