import { assertNever } from "../../../core/assert.ts";
import type { Calendar } from "../../../ports/calendar.ts";
import type { Connection } from "../connection.ts";
import { carriedByDay } from "../prune.ts";
import { quarterMs, quarterOf, rollupCounts, rollupDimensions, rollupSums, sumsByDay, sumsByQuarter } from "../rollups.ts";
import { differing, type Derived } from "./findings.ts";
import { mendLinks } from "./mend-links.ts";
import { mendWindow } from "./mend-window.ts";

/** What was changed in a derived row, from what to what. */
export interface Mended {
  readonly kind: "window" | "link" | "rollup" | "carried";
  readonly id: string;
  readonly from: string;
  readonly to: string;
}

/** Makes one derived row anew from what it is derived from. Within a transaction; answers what it changed. */
export function mend(db: Connection, calendar: Calendar, derived: Derived): Mended[] {
  switch (derived.of) {
    case "rollup_quarter":
      return mendQuarter(db, derived.time, derived.key);
    case "rollup_day":
      return mendDay(db, calendar, derived.time, derived.key);
    case "window":
      return mendWindow(db, calendar, derived.seq);
    case "links":
      return mendLinks(db, calendar, derived.charge);
    case "carried":
      return mendCarried(db, calendar, derived.charge);
    default:
      return assertNever(derived);
  }
}

function mendQuarter(db: Connection, time: number, key: string): Mended[] {
  const isKept = db.prepare("select ? >= quarters_from from meta").pluck().get(time) === 1;
  if (!isKept) return [];
  const sums = sumsByQuarter(`key = :key and admitted_at >= :time and admitted_at < :time + ${quarterMs} and ${quarterOf} = :time`);
  return replaceRows(db, { table: "rollup_quarter", column: "starts_at", sums, shown: new Date(time).toISOString() }, { time, key });
}

function mendDay(db: Connection, calendar: Calendar, time: string, key: string): Mended[] {
  const { start, end } = spanOfDate(calendar, time);
  const names = ["day", ...rollupDimensions].join(", ");
  const sums = `${dayParts} select ${names}, ${rollupSums.map((name) => `sum(${name})`).join(", ")} from parts group by ${names}`;
  db.function("local_date", { deterministic: true }, (at: unknown) => calendar.dateOf(Number(at)));
  return replaceRows(db, { table: "rollup_day", column: "day", sums, shown: time }, { time, key, start, end });
}

const ofKeyAndSpan = "key = :key and admitted_at >= :start and admitted_at < :end";

/** What a key's charges of a day, and carried sums, add to the rollup by days. Needs `local_date`. */
const dayParts = `with parts (day, ${[...rollupDimensions, ...rollupSums].join(", ")}) as
  (${sumsByDay(ofKeyAndSpan)} union all ${carriedByDay(ofKeyAndSpan)})`;

/** The instants of a local date; none for a text that is no date. */
function spanOfDate(calendar: Calendar, date: string): { readonly start: number; readonly end: number } {
  const parsed = /^[12]\d{3}-\d{2}-\d{2}$/.test(date) ? new Date(`${date}T00:00:00Z`) : null;
  if (parsed === null || Number.isNaN(parsed.getTime()) || !parsed.toISOString().startsWith(date)) return { start: 0, end: 0 };
  const span = calendar.spanOf("1d", Math.max(calendar.startOfDate(date), 0));
  return calendar.dateOf(span.start) === date ? { start: span.start, end: span.end ?? span.start } : { start: 0, end: 0 };
}

interface RowValues {
  readonly time: number | string;
  readonly key: string;
  readonly start?: number;
  readonly end?: number;
}

interface Rows {
  readonly table: string;
  readonly column: string;
  /** Selects what the rows must be. */
  readonly sums: string;
  readonly shown: string;
}

function replaceRows(db: Connection, { table, column, sums, shown }: Rows, values: RowValues): Mended[] {
  const read = db
    .prepare(`select ${[...rollupDimensions, ...rollupSums].join(", ")} from ${table} where ${column} = :time and key = :key`)
    .raw()
    .safeIntegers();
  const at = { time: values.time, key: values.key };
  const before = byIdentity(read.all(at) as (string | bigint)[][]);
  db.prepare(`delete from ${table} where ${column} = :time and key = :key`).run(at);
  db.prepare(`insert into ${table} (${[column, ...rollupDimensions, ...rollupSums].join(", ")}) ${sums}`).run(values);
  const after = byIdentity(read.all(at) as (string | bigint)[][]);
  return [...new Set([...before.keys(), ...after.keys()])].flatMap((identity) => {
    const [from, to] = [before.get(identity), after.get(identity)];
    const none = rollupSums.map(() => 0);
    const change = differing(rollupSums, to ?? none, from ?? none);
    if (change === null && from !== undefined && to !== undefined) return [];
    const text = (row: unknown, sums: string | undefined) => (row === undefined ? "no row" : (sums ?? "a row of zeros"));
    return [{ kind: "rollup" as const, id: `${table} ${shown}/${identity}`, from: text(from, change?.found), to: text(to, change?.expected) }];
  });
}

/** The sums of rows by their dimensions. */
function byIdentity(rows: readonly (string | bigint)[][]): Map<string, (string | bigint)[]> {
  const count = rollupDimensions.length;
  return new Map(rows.map((row) => [row.slice(0, count).join("/"), row.slice(count)]));
}

/**
 * Counts of no sum go. Counts that are missing are what the rollup by days has beyond the other charges of that day, where
 * that is possible; they stay missing otherwise.
 */
function mendCarried(db: Connection, calendar: Calendar, charge: number): Mended[] {
  const row = db.prepare("select id, admitted_at, key, team, model, price_group, source, route from charges where seq = ?").get(charge) as
    | { id: string; admitted_at: number; key: string; team: string | null; model: string; price_group: string | null; source: string; route: string }
    | undefined;
  if (row === undefined) {
    const removed = db.prepare("delete from carried where charge = ?").run(charge).changes;
    return removed === 0 ? [] : [{ kind: "carried", id: String(charge), from: "counts of none", to: "no row" }];
  }
  const isThere = db.prepare("select 1 from carried where charge = ?").get(charge) !== undefined;
  if (isThere || row.route !== "carried") return [];
  const counts = missingCounts(db, calendar, row);
  const [requests = 0, unpriced = 0, retries = 0] = counts;
  if (Math.min(...counts) < 0 || requests < Math.max(unpriced, retries)) return [];
  db.prepare(`insert into carried (charge, ${rollupCounts.join(", ")}) values (?, ?, ?, ?)`).run(charge, ...counts);
  const to = rollupCounts.map((name, index) => `${name} ${counts[index]}`).join(", ");
  return [{ kind: "carried", id: row.id, from: "no counts", to }];
}

function missingCounts(
  db: Connection,
  calendar: Calendar,
  row: { admitted_at: number; key: string; team: string | null; model: string; price_group: string | null; source: string },
): number[] {
  const day = calendar.dateOf(row.admitted_at);
  const { start, end } = spanOfDate(calendar, day);
  db.function("local_date", { deterministic: true }, (at: unknown) => calendar.dateOf(Number(at)));
  const identity = { key: row.key, team: row.team ?? "", model: row.model, price_group: row.price_group ?? "", source: row.source };
  const same = rollupDimensions.map((name) => `${name} = :${name}`).join(" and ");
  const counted = rollupCounts.map((name) => `coalesce(sum(${name}), 0)`).join(", ");
  const stored = db.prepare(`select ${counted} from rollup_day where day = :day and ${same}`).raw().get({ day, ...identity }) as number[];
  const own = db
    .prepare(`${dayParts} select ${counted} from parts where ${same}`)
    .raw()
    .get({ start, end, ...identity }) as number[];
  return stored.map((count, index) => count - (own[index] ?? 0));
}
