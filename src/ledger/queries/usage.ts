import type { PicoUsd } from "../../core/money.ts";
import type { Calendar } from "../../ports/calendar.ts";
import { isAmong, type Dialect } from "./dialects.ts";
import { rowsOf, sumSql, type Query, type RunQuery, type Statement } from "./query.ts";
import { dayMs, hourMs, minuteMs } from "../../core/time.ts";

type UsageDimension = "key" | "team" | "model";

/**
 * Largest age of returned sums, as a multiple of their lifetime. Sums older than one lifetime are still returned, and
 * are read again.
 */
const lifetimesMax = 5;

interface Known {
  /** Statement that read the sums, with its values, as JSON. */
  readonly asked: string;
  readonly at: number;
  readonly rows: string;
  /** True while the rows are being read again. */
  isReading: boolean;
}

/**
 * Caches sums of past days, as JSON that the statements of the lists read. Summing a month of a large ledger takes a
 * hundred milliseconds, and only a correction or a late settlement changes the result. While the cache reads sums
 * again, it returns slightly old ones.
 */
export class PastUsage {
  readonly #dialect: Dialect;
  readonly #calendar: Calendar;
  readonly #answer: RunQuery;
  readonly #known = new Map<string, Known>();

  constructor(dialect: Dialect, calendar: Calendar, answer: RunQuery) {
    this.#dialect = dialect;
    this.#calendar = calendar;
    this.#answer = answer;
  }

  /** Returns the statement that sums the current calendar month by a dimension, as `who`, `spent` and `requests`. */
  *thisMonth(dimension: UsageDimension, at: number): Query<Statement> {
    const today = this.#calendar.dateOf(at);
    const sums = `${dimension} as who, ${sumSql("cost")} as spent, ${sumSql("requests")} as requests`;
    const past = yield* this.#rows(dimension, at, minuteMs, ["who", "spent", "requests"], {
      sql: `select ${sums} from rollup_day where day >= ? and day < ? group by ${dimension}`,
      values: [`${today.slice(0, -2)}01`, today],
    });
    return {
      sql: `select who, ${sumSql("spent")} as spent, ${sumSql("requests")} as requests from (
          select value ->> 0 as who, cast(value ->> 1 as bigint) as spent, cast(value ->> 2 as bigint) as requests from ${this.#dialect.eachOf} past
          union all select ${dimension}, cost, requests from rollup_day where day = ?
        ) days group by who`,
      values: [past, today],
    };
  }

  /**
   * Returns the statement that selects the models used in the last `days` days, as `who`, `price_group` and `last_day`.
   */
  *lastDays(days: number, at: number): Query<Statement> {
    const today = this.#calendar.dateOf(at);
    const past = yield* this.#rows("models", at, hourMs, ["who", "price_group", "last_day"], {
      sql: "select model as who, max(price_group) as price_group, max(day) as last_day from rollup_day where day >= ? and day < ? group by model",
      values: [this.#calendar.dateOf(at - (days - 1) * dayMs), today],
    });
    return {
      sql: `select value ->> 0 as who, value ->> 1 as price_group, value ->> 2 as last_day from ${this.#dialect.eachOf} past
        union all select model, max(price_group), max(day) from rollup_day where day = ? group by model`,
      values: [past, today],
    };
  }

  *#rows(
    name: string,
    at: number,
    lifetimeMs: number,
    columns: readonly string[],
    { sql, values }: Statement,
  ): Query<string> {
    const statement = { sql: `select ${this.#dialect.jsonOf(columns)} as rows from (${sql}) past`, values };
    const asked = JSON.stringify(statement);
    const known = this.#known.get(name);
    const age = known === undefined ? Infinity : Math.abs(at - known.at);
    if (known?.asked !== asked || age >= lifetimesMax * lifetimeMs) {
      const rows = yield* readText(statement);
      this.#known.set(name, { asked, at, rows, isReading: false });
      return rows;
    }
    if (age >= lifetimeMs && !known.isReading) {
      known.isReading = true;
      // Runs after the current list has been read.
      setImmediate(() => {
        this.#answer(readText(statement)).then(
          (rows) => this.#known.set(name, { asked, at, rows, isReading: false }),
          () => (known.isReading = false),
        );
      });
    }
    return known.rows;
  }
}

function* readText(statement: Statement): Query<string> {
  const [row] = yield* rowsOf<{ rows: string }>(statement);
  return row?.rows ?? "[]";
}

interface SpentRow {
  readonly who: string;
  readonly spent: PicoUsd;
  readonly requests: bigint;
}

/** Returns the sums of a few keys in the current calendar month, by key id. */
export function* readSpentOfKeys(
  dialect: Dialect,
  calendar: Calendar,
  ids: readonly string[],
  at: number,
): Query<ReadonlyMap<string, SpentRow>> {
  const rows = yield* rowsOf<SpentRow>({
    sql: `select key as who, ${sumSql("cost")} as spent, ${sumSql("requests")} as requests from rollup_day
      where ${dialect.isIn("day")} and ${dialect.isIn("key")} group by key`,
    values: [JSON.stringify(daysOfMonth(calendar, at)), JSON.stringify(ids)],
  });
  return new Map(rows.map((row) => [row.who, row]));
}

/**
 * Returns the dates of the current month up to today. With a list of dates, the database can look up each day of a few
 * keys.
 */
function daysOfMonth(calendar: Calendar, at: number): string[] {
  const today = calendar.dateOf(at);
  const month = today.slice(0, -2);
  return Array.from({ length: Number(today.slice(-2)) }, (_, index) => month + String(index + 1).padStart(2, "0"));
}

/** Returns a function that returns how many requests of a key, team or model were refused today. */
export function* readRefusedToday(
  dialect: Dialect,
  calendar: Calendar,
  dimension: UsageDimension,
  names: readonly string[],
  at: number,
): Query<(name: string) => number> {
  const rows = yield* rowsOf<{ who: string; count: bigint }>({
    sql: `select ${dimension} as who, ${sumSql("count")} as count from refusals
      where minute >= ? and ${dialect.isIn(dimension)} group by ${dimension}`,
    values: [calendar.spanOf("1d", at).start, JSON.stringify(names)],
  });
  const counts = new Map(rows.map(({ who, count }) => [who, Number(count)]));
  return (name) => counts.get(name) ?? 0;
}

/** SQL expression for the time of a key's latest request; null if the key has made none. */
export const lastUseOf = (key: string) => `(select max(admitted_at) from charges where charges.key = ${key})`;

/** Returns a function that returns the time of a key's latest request; null if the key has made none. */
export function readLastUsesOfKeys(dialect: Dialect, ids: readonly string[]): Query<(id: string) => number | null> {
  return readLastUses({
    sql: `select value as who, ${lastUseOf("value")} as last from ${dialect.textsOf} ids`,
    values: [JSON.stringify(ids)],
  });
}

/**
 * Returns a function that returns the time of a team's latest request; null if there is none. Counts all requests of
 * the keys that are in the team now.
 */
export function readLastUsesOfTeams(
  dialect: Dialect,
  names: readonly string[],
): Query<(name: string) => number | null> {
  return readLastUses({
    sql: `select team as who, max(${lastUseOf("keys.id")}) as last from keys where ${isAmong(dialect, "team")} group by team`,
    values: [JSON.stringify(names)],
  });
}

function* readLastUses(statement: Statement): Query<(name: string) => number | null> {
  const rows = yield* rowsOf<{ who: string; last: bigint | null }>(statement);
  const lastOf = new Map(rows.map(({ who, last }) => [who, last === null ? null : Number(last)]));
  return (name) => lastOf.get(name) ?? null;
}
