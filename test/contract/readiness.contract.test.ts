import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import { opened } from "../support/ledger-contract.ts";
import { holdOf, ledgerKinds } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("readiness of the ledger: $name", (kind) => {
  it("states whether it is writable, without changing anything", async () => {
    await using store = await opened(kind);
    await store.ledger.hold(holdOf("a", usd("1")));
    expect(await store.ledger.isWritable()).toBe(true);
    expect(await store.ledger.verify()).toEqual({ charges: 1, differences: [] });
  });
});
