import { describe, expect, it } from "vitest";
import { markKeptMs, markMs } from "../../src/core/slices.ts";
import { opened } from "../support/ledger-contract.ts";
import { ledgerKinds, noon } from "../support/ledger-fixtures.ts";

describe.each(ledgerKinds)("marks of bursts in the ledger: $name", (kind) => {
  it("marks a model whose streams came in bursts: for the key, and after a second key's burst for all keys", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    const marksAfter = async (key: string, kindSeen: "live" | "burst", at = noon, model = "m") => {
      const result = await ledger.burstMarks({ key, model, kind: kindSeen }, at);
      return result.ok ? result.marks.map((mark) => `${mark.key} ${mark.model} ${mark.at - noon} ${mark.live}`) : [];
    };
    expect(await ledger.burstMarks(null, noon)).toEqual({ ok: true, marks: [] });
    expect(await marksAfter("a", "live")).toEqual([]);
    expect(await marksAfter("a", "burst")).toEqual(["a m 0 0"]);
    expect(await marksAfter("b", "burst", noon, "other")).toEqual(["a m 0 0", "b other 0 0"]);
    expect(await marksAfter("b", "burst", noon + 5)).toEqual(["* m 5 0", "a m 0 0", "b m 5 0", "b other 0 0"]);
    expect(await ledger.burstMarks(null, noon)).toEqual({
      ok: true,
      marks: [
        { key: "*", model: "m", at: noon + 5, live: 0 },
        { key: "a", model: "m", at: noon, live: 0 },
        { key: "b", model: "m", at: noon + 5, live: 0 },
        { key: "b", model: "other", at: noon, live: 0 },
      ],
    });
    await marksAfter("b", "live", noon + 6);
    await marksAfter("b", "live", noon + 7);
    expect(await marksAfter("b", "live", noon + markMs + 5)).toEqual(["a m 0 0", "b other 0 0"]);
    expect(await marksAfter("c", "burst", noon + markKeptMs + 1)).toEqual(["c m 2592000001 0"]);
    const raced = await Promise.all([marksAfter("x", "burst", noon, "race"), marksAfter("y", "burst", noon, "race")]);
    expect(raced.flat()).toContain("* race 0 0");
  });
});
