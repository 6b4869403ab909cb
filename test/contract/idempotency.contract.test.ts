import { describe, expect, it } from "vitest";
import { injectedKeptMs } from "../../src/ports/ledger.ts";
import { opened } from "../support/ledger-contract.ts";
import { ledgerKinds, noon } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("idempotency keys in the ledger: $name", (kind) => {
  it("stores the first value injected for an idempotency key, for two days", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const injected = (key: string, value: string | null, at = noon) => ledger.injectedFor(key, value, at);
    expect(await injected("k", null)).toEqual({ ok: true, injected: null });
    expect(await injected("k", "one")).toEqual({ ok: true, injected: "one" });
    expect(await injected("k", "two")).toEqual({ ok: true, injected: "one" });
    expect(await injected("k", null)).toEqual({ ok: true, injected: "one" });
    expect(await injected("other", "two")).toEqual({ ok: true, injected: "two" });
    expect(await injected("third", "three", noon + injectedKeptMs)).toEqual({ ok: true, injected: "three" });
    expect(await injected("k", null)).toEqual({ ok: true, injected: "one" });
    await injected("fourth", "four", noon + injectedKeptMs + 1);
    expect(await injected("k", "five")).toEqual({ ok: true, injected: "five" });
    const both = await Promise.all([injected("race", "a"), injected("race", "b")]);
    expect(both).toEqual([both[0], both[0]]);
  });
});
