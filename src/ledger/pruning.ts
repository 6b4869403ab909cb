import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import { quartersKeptMs } from "../core/charge.ts";
import { rowOf, type Query } from "./queries/query.ts";
import { carriedDigest } from "./rollups.ts";

const dayMs = 86_400_000;

/** Shortest pause between two transactions, in milliseconds. A longer step is followed by a pause of its own length. */
const pauseMsMin = 5;

/** Result of a prune or its preview. */
export interface Pruned {
  /** Horizon: the start of a day in the ledger's zone. Only charges admitted before it are pruned. */
  readonly before: number;
  readonly charges: number;
  /** Windows that ended before the horizon. */
  readonly windows: number;
  /** Rows of the rollup by quarter hours. */
  readonly quarters: number;
}

export interface PruneOptions {
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** Waits, and keeps the process alive meanwhile. */
  readonly pause: (ms: number) => Promise<unknown>;
  /** At least `pruneAgeMsMin`. */
  readonly olderThanMs: number;
  /** Called after each step with the number of charges done. */
  readonly onProgress?: (charges: number) => void;
}

export interface Horizons {
  /** Charges and windows before this instant are pruned. */
  readonly charges: number;
  /** Quarter hours before this instant are pruned. */
  readonly quarters: number;
}

/** Returns the horizons. They are starts of days, so that a carried sum never mixes pruned and kept charges. */
export function horizons({ calendar, clock, olderThanMs }: PruneOptions): Horizons {
  const startOfDay = (at: number) => calendar.spanOf("1d", Math.max(at, 0)).start;
  const now = clock.now();
  return { charges: startOfDay(now - olderThanMs), quarters: startOfDay(now - quartersKeptMs) };
}

/**
 * SQL condition for charges that retention may delete; `before` is the horizon. Excludes pending charges, carried sums,
 * charges whose correction stays, and charges counted by a session's budget. The test of `adjusts` lets the index of
 * corrections serve.
 */
export const prunable = (before: string) => `state <> 'pending' and admitted_at < ${before}
  and not exists (select 1 from carried where carried.charge = charges.seq)
  and not exists (select 1 from charges correction where correction.adjusts is not null and correction.adjusts = charges.id)
  and (session is null or not exists (select 1 from run_sessions where run_sessions.id = charges.session))`;

/** Counts what would be deleted. Includes an old charge that is kept only until its old correction is deleted. */
export function* prunePreview(horizon: Horizons): Query<Pruned> {
  const charges = yield* countOf(
    `select count(*) as count from charges where state <> 'pending' and admitted_at < ?
       and not exists (select 1 from carried where carried.charge = charges.seq)
       and not exists (select 1 from charges correction where correction.adjusts is not null and correction.adjusts = charges.id and correction.admitted_at >= ?)
       and (session is null or not exists (select 1 from run_sessions where run_sessions.id = charges.session))`,
    horizon.charges,
    horizon.charges,
  );
  const windows = yield* countOf("select count(*) as count from windows where ends_at <= ?", horizon.charges);
  const quarters = yield* countOf("select count(*) as count from rollup_quarter where starts_at < ?", horizon.quarters);
  return { before: horizon.charges, charges, windows, quarters };
}

function* countOf(sql: string, ...values: readonly number[]): Query<number> {
  return Number((yield* rowOf<{ count: bigint }>({ sql, values }))?.count ?? 0n);
}

/**
 * Repeats a step, which returns its count, until it finds nothing more. Pauses in between so that others can write.
 * Returns the total.
 */
export async function repeatStep(
  { clock, pause }: PruneOptions,
  step: () => number | Promise<number>,
  onStep?: (count: number) => void,
): Promise<number> {
  for (let sum = 0; ;) {
    const start = clock.monotonic();
    const count = await step();
    if (count === 0) return sum;
    sum += count;
    onStep?.(count);
    await pause(Math.max(pauseMsMin, clock.monotonic() - start));
  }
}

/**
 * Returns a function from an instant to noon of its day, the time of its carried sums. Remembers the last day, because
 * charges come in order of days.
 */
export function noonOf(calendar: Calendar): (at: number) => number {
  let [start, end] = [0, 0];
  return (at) => {
    if (at < start || at >= end) {
      const day = calendar.spanOf("1d", at);
      [start, end] = [day.start, day.end ?? day.start];
    }
    return start + dayMs / 2;
  };
}

/**
 * Returns the id of a carried sum, from its time, key, team, model, group and source. Equal sums have equal ids, so
 * each step adds to the existing one.
 */
export function carriedId(calendar: Calendar, identity: readonly unknown[]): string {
  return `carried-${calendar.dateOf(Number(identity[0]))}-${carriedDigest(identity)}`;
}
