import { describe, expect, it } from "vitest";
import type { Charge } from "../../src/core/charge.ts";
import { usd } from "../../src/core/money.ts";
import { alice, endAt, holdOf, ledgerKinds, noon, posting, price, priceId } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

async function whole(parts: AsyncIterable<readonly Charge[]>): Promise<(readonly Charge[])[]> {
  const list: (readonly Charge[])[] = [];
  for await (const part of parts) list.push(part);
  return list;
}

describe.each(ledgerKinds)("the stream of charges: $name", (kind) => {
  it("has all charges of a span in every state, oldest first", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    const stated = { user: "u_1", labels: { env: "prod" } };
    const caller = { ...alice, ...stated };
    for (const [id, at] of [
      ["late", noon + 5],
      ["b", noon],
      ["a", noon - 5],
      ["c", noon],
      ["before", noon - 9],
    ] as const) {
      await ledger.hold(holdOf(id, usd("1"), { at, caller, tags: { of: id } }));
    }
    await ledger.post("a", posting(1, 1), endAt(noon + 1));
    await ledger.void("c", "left", endAt(noon + 1));
    await ledger.adjust("a", { id: "fix", at: noon + 3, amount: usd("0.1"), why: "fee", by: "test" });
    const parts = await whole(ledger.stream({ since: noon - 5, until: noon + 5 }));
    expect(parts.flat().map(({ id, state }) => [id, state])).toEqual([
      ["a", "posted"],
      ["fix", "posted"],
      ["b", "pending"],
      ["c", "voided"],
    ]);
    expect(parts.flat()[0]).toEqual(await ledger.charge("a"));
    for (const charge of parts.flat()) expect(charge).toMatchObject(stated);
    expect((await whole(ledger.stream({ since: noon, until: noon }))).flat()).toEqual([]);
  });

  it("is a snapshot that later changes do not affect", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    await Promise.all(Array.from({ length: 1200 }, (_, n) => ledger.hold(holdOf(`r${n}`, usd("1"), { at: noon + n }))));
    const seen: string[] = [];
    for await (const part of ledger.stream({ since: noon, until: noon + 9999 })) {
      if (seen.length === 0) {
        await ledger.void("r1100", "left", endAt(noon));
        await ledger.hold(holdOf("new", usd("1"), { at: noon + 2000 }));
      }
      seen.push(...part.map(({ state }) => state));
    }
    expect(seen).toEqual(Array.from({ length: 1200 }, () => "pending"));
    // A reader that stops early leaves nothing open.
    for await (const _ of ledger.stream({ since: noon, until: noon + 9999 })) break;
    expect((await ledger.charge("r1100"))?.state).toBe("voided");
  });

  it("has charges with the id of a price, by which the ledger finds the price", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    await store.ledger.hold(holdOf("a", usd("1")));
    expect(await store.ledger.price(priceId)).toEqual(price);
    expect(await store.ledger.price("none")).toBeUndefined();
  });
});
