import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";
import { spendByTeam } from "../../../src/server/figures.ts";
import { formatUsd, usd } from "../../../src/core/money.ts";
import type { LedgerQueries } from "../../../src/ports/ledger.ts";
import { calendarOf } from "../../../src/platform/clock.ts";
import { harness } from "../../support/cli-harness.ts";
import { spend } from "../../support/cli-traffic.ts";
import { only } from "../../support/only.ts";

const at = (text: string) => Date.parse(`2026-11-${text}Z`);

it("the month's spending is today's plus that of finished days, where a correction appears within a minute", async () => {
  using commands = harness();
  await using store = await commands.open();
  const { ledger } = store;
  const read = spendByTeam({ atOnce: ledger, later: ledger }, calendarOf("UTC"));
  const shown = async (now: number) =>
    (await read(now)).map(({ team, period, spent }) => `${period} ${team} ${formatUsd(spent)}`);
  await spend(ledger, { id: "old", at: at("19T23:59:00"), key: "a", team: "red", input: 1000, output: 0 });
  await spend(ledger, { id: "new", at: at("20T00:01:00"), key: "a", team: "red", input: 2000, output: 0 });
  await spend(ledger, { id: "none", at: at("20T00:02:00"), key: "b", input: 500, output: 0 });
  const noon = at("20T12:00:00");
  expect(await shown(noon)).toEqual(["day null 0.0005", "day red 0.002", "month red 0.003", "month null 0.0005"]);
  await ledger.adjust("old", { id: "fix-old", at: noon, amount: usd("1"), why: "late", by: "test" });
  await ledger.adjust("new", { id: "fix-new", at: noon, amount: usd("5"), why: "at once", by: "test" });
  expect(await shown(noon + 59_000)).toContain("month red 5.003");
  await shown(noon + 60_000);
  await ledger.totals();
  expect(await shown(noon + 61_000)).toContain("month red 6.003");
  expect((await shown(at("21T00:00:00"))).toSorted()).toEqual(["month null 0.0005", "month red 6.003"]);
});

it("an ended day is added at midnight, even if the month's sums are not read yet", async () => {
  using commands = harness();
  await using store = await commands.open();
  const { ledger } = store;
  const longReads = Promise.withResolvers<void>();
  const later = only<LedgerQueries>({ report: (query) => longReads.promise.then(() => ledger.report(query)) });
  const read = spendByTeam({ atOnce: ledger, later }, calendarOf("UTC"));
  const ofMonth = async (now: number) =>
    (await read(now)).flatMap(({ period, spent }) => (period === "month" ? formatUsd(spent) : []));
  await spend(ledger, { id: "1", at: at("19T12:00:00"), key: "a", input: 1000, output: 0 });
  expect(await ofMonth(at("20T23:00:00"))).toEqual(["0.001"]);
  await spend(ledger, { id: "2", at: at("20T23:59:00"), key: "a", input: 2000, output: 0 });
  // Long reads are blocked, but today and the days that ended since are included.
  expect(await ofMonth(at("21T00:01:00"))).toEqual(["0.003"]);
  await ledger.adjust("1", { id: "fix", at: at("21T00:02:00"), amount: usd("1"), why: "late", by: "test" });
  expect(await ofMonth(at("21T00:03:00"))).toEqual(["0.003"]);
  longReads.resolve();
  await setImmediate();
  expect(await ofMonth(at("21T00:04:00"))).toEqual(["1.003"]);
  // A new month begins at zero.
  expect(await ofMonth(Date.parse("2026-12-01T00:01:00Z"))).toEqual([]);
});
