import { recompute } from "../recompute.ts";
import type { Period } from "../../core/budget.ts";
import { isPeriod, parseScope } from "../../core/budget.ts";
import { parseCanonicalPrice, type PriceVersion } from "../../core/price.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Difference, Verification } from "../../ports/ledger.ts";
import { sumCharges } from "./budgets.ts";
import type { Connection } from "./connection.ts";
import { carriedByDay } from "./prune.ts";
import { rollupDimensions, rollupSums, sumsByDay, sumsByQuarter } from "./rollups.ts";
import { chargeOf, type ChargeRow } from "./rows.ts";

/** Parsed prices that are kept in memory at most. */
const pricesKept = 1000;

/** Differences that are listed at most: after that many, one more tells nobody anything. */
const differencesMax = 1000;

class Differences {
  readonly list: Difference[] = [];

  push(difference: Difference): void {
    if (this.list.length < differencesMax) this.list.push(difference);
  }
}

/** Retention keeps the rollup by quarter hours from this instant on. */
const keptQuarters = "starts_at >= (select quarters_from from meta)";

/** Compares every stored sum and amount with what its charges say, from one snapshot and in bounded memory. */
export function verify(db: Connection, calendar: Calendar): Verification {
  db.function("local_date", { deterministic: true }, (at: unknown) => calendar.dateOf(Number(at)));
  return db.transaction(() => {
    const differences = new Differences();
    const charges = verifyCharges(db, differences);
    verifyWindows(db, calendar, differences);
    verifyRollup(db, { table: "rollup_quarter", time: "starts_at", sums: sumsByQuarter, kept: keptQuarters }, differences);
    verifyRollup(db, { table: "rollup_day", time: "day", sums: `${sumsByDay} union all ${carriedByDay}`, kept: "true" }, differences);
    return { charges, differences: differences.list };
  })();
}

function verifyCharges(db: Connection, differences: Differences): number {
  const prices = new Map<string, PriceVersion | null>();
  const findPrice = db.prepare("select canonical from price_versions where id = ?").pluck();
  const priceOf = (id: string): PriceVersion | null => {
    let price = prices.get(id);
    if (price === undefined) {
      const canonical = findPrice.get(id) as string | undefined;
      price = canonical === undefined ? null : parsePrice(canonical);
      if (prices.size >= pricesKept) prices.clear();
      prices.set(id, price);
    }
    return price;
  };
  const correctedState = db.prepare("select state from charges where id = ?").pluck();
  const isCarried = db.prepare("select 1 from carried where charge = ?").pluck();
  let count = 0;
  for (const row of db.prepare("select * from charges order by seq").safeIntegers().iterate() as IterableIterator<ChargeRow>) {
    count++;
    const charge = chargeOf(row);
    for (const { expected, found } of recompute(charge, priceOf)) differences.push({ kind: "charge", id: charge.id, expected, found });
    if (row.formula === "adjustment" && correctedState.get(row.adjusts) !== "posted" && isCarried.get(row.seq) === undefined) {
      differences.push({ kind: "charge", id: charge.id, expected: "corrects a posted charge", found: String(row.adjusts) });
    }
  }
  return count;
}

/** Null for a text that is not a price any more. */
function parsePrice(canonical: string): PriceVersion | null {
  try {
    return parseCanonicalPrice(canonical);
  } catch {
    return null;
  }
}

interface WindowRow {
  readonly seq: bigint;
  readonly scope: string | null;
  readonly period: string | null;
  readonly budget: bigint;
  readonly subject: string;
  readonly starts_at: bigint;
  readonly ends_at: bigint | null;
  readonly spent: bigint;
  readonly held: bigint;
}

function verifyWindows(db: Connection, calendar: Calendar, differences: Differences): void {
  // What will be released from the window when all that is linked to it settles.
  const linkedHolds = db
    .prepare("select coalesce(sum(hold), 0) from charges join charge_windows on charge = seq where state = 'pending' and window = ?")
    .pluck()
    .safeIntegers();
  const rows = db
    .prepare("select windows.*, scope, period from windows left join budgets on budgets.seq = windows.budget order by windows.seq")
    .safeIntegers()
    .iterate() as IterableIterator<WindowRow>;
  for (const row of rows) {
    const scope = row.scope === null ? undefined : parseScope(row.scope);
    if (scope === undefined || row.period === null || !isPeriod(row.period)) {
      differences.push({ kind: "budget", id: String(row.budget), expected: "a budget with a scope and a period", found: `${row.scope}/${row.period}` });
      continue;
    }
    const start = Number(row.starts_at);
    const end = row.ends_at === null ? null : Number(row.ends_at);
    const id = [`${row.scope}/${row.period}`, row.subject, new Date(start).toISOString()].filter((part) => part !== "").join(" ");
    const differ = (expected: string, found: string) => {
      if (expected !== found) differences.push({ kind: "window", id, expected, found });
    };
    differ(spanText(calendar, row.period, start), `${start} to ${end ?? "the end"}`);
    const sums = sumCharges(db, scope, row.subject, { start, end });
    differ(`spent ${sums.spent}`, `spent ${row.spent}`);
    differ(`held ${sums.held}`, `held ${row.held}`);
    differ(`linked holds of ${sums.held}`, `linked holds of ${linkedHolds.get(row.seq) as bigint}`);
  }
}

function spanText(calendar: Calendar, period: Period, at: number): string {
  const { start, end } = calendar.spanOf(period, at);
  return `${start} to ${end ?? "the end"}`;
}

/** Sums from the charges and the stored ones, side by side; rows that agree never leave SQLite. */
function verifyRollup(db: Connection, rollup: { table: string; time: string; sums: string; kept: string }, differences: Differences): void {
  const names = [rollup.time, ...rollupDimensions].join(", ");
  const expected = rollupSums.map((name) => `sum(expected_${name})`);
  const found = rollupSums.map((name) => `sum(found_${name})`);
  const rows = db
    .prepare(
      `with expected (${names}, ${rollupSums.join(", ")}) as (${rollup.sums})
       select ${names}, ${expected.join(" || ' ' || ")}, ${found.join(" || ' ' || ")}
       from (
         select ${names}, ${rollupSums.map((name) => `${name} expected_${name}, 0 found_${name}`).join(", ")} from expected
         union all
         select ${names}, ${rollupSums.map((name) => `0, ${name}`).join(", ")} from ${rollup.table}
       )
       where ${rollup.kept}
       group by ${names} having ${rollupSums.map((_, index) => `${expected[index]} <> ${found[index]}`).join(" or ")}`,
    )
    .raw()
    .safeIntegers()
    .iterate() as IterableIterator<(string | bigint)[]>;
  for (const row of rows) {
    const id = `${rollup.table} ${row.slice(0, -2).map(String).join("/")}`;
    differences.push({ kind: "rollup", id, expected: String(row.at(-2)), found: String(row.at(-1)) });
  }
}
