import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import { quartersKeptMs } from "../core/charge.ts";
import { rowOf, type Query } from "./queries/query.ts";
import { carriedDigest } from "./rollups.ts";

const dayMs = 86_400_000;

/** The least pause between two transactions, in milliseconds; a step that took longer is followed by as long a pause. */
const pauseMsMin = 5;

/** What was pruned, or would be. */
export interface Pruned {
  /** Charges admitted before this instant, the beginning of a day in the ledger's zone, were looked at. */
  readonly before: number;
  readonly charges: number;
  /** Windows that had ended by then. */
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
  /** Told after each step how many charges are done. */
  readonly onProgress?: (charges: number) => void;
}

export interface Horizons {
  /** Charges and windows of before are pruned. */
  readonly charges: number;
  /** Quarter hours of before are. */
  readonly quarters: number;
}

/** Whole days only, so that a carried sum never straddles what is kept. */
export function horizons({ calendar, clock, olderThanMs }: PruneOptions): Horizons {
  const startOfDay = (at: number) => calendar.spanOf("1d", Math.max(at, 0)).start;
  const now = clock.now();
  return { charges: startOfDay(now - olderThanMs), quarters: startOfDay(now - quartersKeptMs) };
}

/**
 * Which charges go, as a condition (that an adjustment corrects something is said, so that the index of those serves): pending charges stay, as do carried sums, what a charge that stays corrects, and what a budget of a session counts. `before`
 * stands for the horizon.
 */
export const prunable = (before: string) => `state <> 'pending' and admitted_at < ${before}
  and not exists (select 1 from carried where carried.charge = charges.seq)
  and not exists (select 1 from charges correction where correction.adjusts is not null and correction.adjusts = charges.id)
  and (session is null or not exists (select 1 from run_sessions where run_sessions.id = charges.session))`;

/** Counts what would be deleted; an old charge that an old correction keeps until then is counted in. */
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

/** Runs a step, which answers how many it did, until it finds nothing more, and lets others write in between. Answers how many there were. */
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

/** Noon of an instant's day, the time of its carried sums; charges come day by day, so the last one is remembered. */
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

/** The id of a carried sum, from its time, key, team, model, group and source: the same for the same sum, so that each step adds to what is there. */
export function carriedId(calendar: Calendar, identity: readonly unknown[]): string {
  return `carried-${calendar.dateOf(Number(identity[0]))}-${carriedDigest(identity)}`;
}
