import { expect, it } from "vitest";
import { spendByTeam } from "../../src/app/spend.ts";
import { formatUsd, usd } from "../../src/core/money.ts";
import { calendarOf } from "../../src/time/calendar.ts";
import { harness } from "../cli/harness.ts";
import { spend } from "../cli/traffic.ts";

const at = (text: string) => Date.parse(`2026-11-${text}Z`);

it("spend of the month is today's and that of the finished days, where a correction shows within a minute", async () => {
  using commands = harness();
  await using store = await commands.open();
  const { ledger } = store;
  const read = spendByTeam(ledger, calendarOf("UTC"));
  const shown = async (now: number) => (await read(now)).map(({ team, period, spent }) => `${period} ${team} ${formatUsd(spent)}`);
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
  // The next day everything before it is read anew.
  expect(await shown(at("21T00:00:00"))).toEqual(["month null 0.0005", "month red 6.003"]);
});
