import { expect, it } from "vitest";
import type { RefusalRow } from "../../../src/ports/refusals.ts";
import { RefusalWatch } from "../../../src/reporting/watched.ts";
import { memoryStore, noon, utc } from "../../support/ledger-fixtures.ts";

const refused = (at: number, code: RefusalRow["code"]): RefusalRow => ({
  minute: at - (at % 60_000),
  key: "k-alice",
  team: null,
  route: "chat",
  model: "model-a",
  code,
  scope: null,
  period: null,
  subject: null,
  count: 2,
  firstAt: at,
  lastAt: at,
  needed: null,
});

it("RefusalWatch reads refusals again after two seconds, or when the clock is set back", async () => {
  await using store = memoryStore();
  const watch = new RefusalWatch({ refusals: store.refusals, calendar: utc }, {});
  await store.refusals.add([
    refused(noon - 13 * 3_600_000, "concurrency_limit"),
    refused(noon - 60_000, "budget_exceeded"),
  ]);
  const before = await watch.poll(noon);
  expect([before.rows.map(({ code }) => code), before.today]).toEqual([["budget_exceeded", "concurrency_limit"], 2]);
  await store.refusals.add([refused(noon - 60_000, "budget_exceeded"), refused(noon + 100, "model_not_allowed")]);
  expect(await watch.poll(noon + 1999)).toBe(before);
  const after = await watch.poll(noon + 2000);
  expect(after.rows.map(({ code, count }) => [code, count])).toEqual([
    ["model_not_allowed", 2],
    ["budget_exceeded", 4],
    ["concurrency_limit", 2],
  ]);
  expect(after.today).toBe(6);
  expect(await watch.poll(noon)).not.toBe(after);
});
