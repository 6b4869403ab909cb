import { describe, expect, it } from "vitest";
import { firstTextKeptMs } from "../../src/ports/ledger.ts";
import { opened } from "../support/ledger-contract.ts";
import { ledgerKinds, noon } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("first texts in the ledger: $name", (kind) => {
  it("stores the first text under a name for two days", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const first = (name: string, text: string | null, at = noon) => ledger.firstText(name, text, at);
    expect(await first("k", null)).toEqual({ ok: true, text: null });
    expect(await first("k", "one")).toEqual({ ok: true, text: "one" });
    expect(await first("k", "two")).toEqual({ ok: true, text: "one" });
    expect(await first("k", null)).toEqual({ ok: true, text: "one" });
    expect(await first("other", "two")).toEqual({ ok: true, text: "two" });
    expect(await first("third", "three", noon + firstTextKeptMs)).toEqual({ ok: true, text: "three" });
    expect(await first("k", null)).toEqual({ ok: true, text: "one" });
    await first("fourth", "four", noon + firstTextKeptMs + 1);
    expect(await first("k", "five")).toEqual({ ok: true, text: "five" });
    const both = await Promise.all([first("race", "a"), first("race", "b")]);
    expect(both).toEqual([both[0], both[0]]);
  });
});
