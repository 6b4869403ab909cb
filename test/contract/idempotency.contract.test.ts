import { describe, expect, it } from "vitest";
import { writtenKeptMs } from "../../src/ports/ledger.ts";
import { opened } from "../support/ledger-contract.ts";
import { ledgerKinds, noon } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("idempotency keys in the ledger: $name", (kind) => {
  it("stores the first value written for an idempotency key, for two days", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const written = (key: string, value: string | null, at = noon) => ledger.writtenFor(key, value, at);
    expect(await written("k", null)).toEqual({ ok: true, written: null });
    expect(await written("k", "one")).toEqual({ ok: true, written: "one" });
    expect(await written("k", "two")).toEqual({ ok: true, written: "one" });
    expect(await written("k", null)).toEqual({ ok: true, written: "one" });
    expect(await written("other", "two")).toEqual({ ok: true, written: "two" });
    expect(await written("third", "three", noon + writtenKeptMs)).toEqual({ ok: true, written: "three" });
    expect(await written("k", null)).toEqual({ ok: true, written: "one" });
    await written("fourth", "four", noon + writtenKeptMs + 1);
    expect(await written("k", "five")).toEqual({ ok: true, written: "five" });
    const both = await Promise.all([written("race", "a"), written("race", "b")]);
    expect(both).toEqual([both[0], both[0]]);
  });
});
