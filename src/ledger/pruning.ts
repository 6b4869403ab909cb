import type { Calendar } from "../ports/calendar.ts";
import type { Clock } from "../ports/clock.ts";
import { quartersKeptMs } from "../core/charge.ts";
import { beginning, carryCorrections, carryOthers, prunable } from "./carried-sums.ts";
import type { MaintainedLedger, MaintenanceFailure, OpenLedger } from "./maintenance.ts";
import type { Dialect } from "./queries/dialects.ts";
import { rowOf, rowsOf, write, type Query } from "./queries/query.ts";
import { lockBudgets } from "./tables/budgets.ts";
import { all, one } from "./tables/table.ts";

/**
 * Shortest pause after a transaction, in milliseconds. After a longer transaction, the pause lasts as long as it took.
 */
const pauseMsMin = 5;

/** Counts of a prune or its preview. */
interface Pruned {
  /** Start of a day in the ledger's time zone. Only charges admitted before it are pruned. */
  readonly before: number;
  readonly charges: number;
  /** Number of windows that ended at `before` or earlier. */
  readonly windows: number;
  /** Number of rows in the rollup by quarter hours. */
  readonly quarters: number;
}

interface PruneOptions {
  readonly clock: Clock;
  /** Waits, and keeps the process alive meanwhile. */
  readonly pause: (ms: number) => Promise<unknown>;
  /** Age from which charges are pruned, in milliseconds. At least `pruneAgeMsMin`. */
  readonly olderThanMs: number;
  /** Called after each step with the number of charges pruned so far. */
  readonly onProgress?: (charges: number) => void;
}

interface Horizons {
  /** Charges and windows before this instant are pruned. */
  readonly charges: number;
  /** Quarter hours before this instant are pruned. */
  readonly quarters: number;
}

/** Returns the horizons. Each is the start of a day, because a carried sum replaces the charges of a whole day. */
export function horizons(calendar: Calendar, { clock, olderThanMs }: PruneOptions): Horizons {
  const startOfDay = (at: number) => calendar.spanOf("1d", Math.max(at, 0)).start;
  const now = clock.now();
  return { charges: startOfDay(now - olderThanMs), quarters: startOfDay(now - quartersKeptMs) };
}

interface PruneLedgerOptions extends PruneOptions {
  readonly calendar: Calendar;
  /** True to count what would be deleted, without deleting it. */
  readonly dryRun: boolean;
  /** Receives the share of charges pruned, from 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

/** Prunes a ledger in its stored time zone. */
export function prune(
  open: OpenLedger,
  { calendar, dryRun, onProgress, ...options }: PruneLedgerOptions,
): Promise<{ readonly ok: true; readonly pruned: Pruned } | MaintenanceFailure> {
  const work = async (ledger: MaintainedLedger) => {
    const preview = await ledger.read(prunePreview(horizons(ledger.calendar, options)));
    const onStep = (charges: number) => onProgress?.(Math.min(charges / Math.max(preview.charges, 1), 1));
    return {
      ok: true,
      pruned: dryRun ? preview : await pruneLedger(ledger, { ...options, onProgress: onStep }),
    } as const;
  };
  return open(work, { calendar, access: dryRun ? "read" : "write" });
}

/**
 * Counts what a prune would delete. Includes charges whose corrections are old, because a prune deletes old corrections
 * first.
 */
export function* prunePreview(horizon: Horizons): Query<Pruned> {
  const charges = yield* countOf(
    `select count(*) as count from charges where ${prunable("correction.admitted_at >= ?")}`,
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

/** Approximate number of windows or rollup rows that one transaction deletes. */
const stepRows = 500;

/**
 * Deletes old data in short transactions with pauses, and returns the counts. Proxies may run at the same time. The
 * ledger is consistent after each transaction, so the next prune continues an interrupted one.
 */
export async function pruneLedger(ledger: MaintainedLedger, options: PruneOptions): Promise<Pruned> {
  const { dialect, calendar } = ledger;
  const horizon = horizons(calendar, options);
  // Deletes quarter hours first: they would not match carried sums, which all have the time of noon.
  const quarters = await repeatStep(options, () => ledger.write(() => deleteQuarters(horizon.quarters)));
  const windows = await repeatStep(options, () => ledger.write(() => deleteWindows(dialect, horizon.charges)));
  let charges = 0;
  const onStep = (count: number) => {
    charges += count;
    options.onProgress?.(charges);
  };
  // Replaces corrections first, because a charge that still has a correction cannot be replaced.
  await repeatStep(options, () => ledger.write(() => carryCorrections(dialect, calendar, horizon.charges)), onStep);
  let after = beginning;
  const carryNext = async () => {
    const { count, last } = await ledger.write(() => carryOthers(dialect, calendar, horizon.charges, after));
    after = last;
    return count;
  };
  await repeatStep(options, carryNext, onStep);
  await ledger.freeSpace(horizon.charges);
  return { before: horizon.charges, charges, windows, quarters };
}

/**
 * Deletes a batch of quarter hours and returns its size. Stores the horizon first, so that no query reads deleted rows.
 */
function* deleteQuarters(before: number): Query<number> {
  yield* write("update meta set quarters_from = ? where quarters_from < ?", before, before);
  const oldest = yield* one<{ at: number | null }>("select min(starts_at) as at from rollup_quarter");
  if (oldest?.at == null || oldest.at >= before) return 0;
  const sql = `select starts_at as at from rollup_quarter where starts_at > ? order by starts_at limit 1 offset ${stepRows}`;
  const later = yield* one<{ at: number }>(sql, oldest.at);
  const until = Math.min(later?.at ?? before, before);
  return (yield* all("delete from rollup_quarter where starts_at < ? returning 1", until)).length;
}

/**
 * Deletes a batch of windows that ended before the horizon, and returns its size. No query reads these windows again,
 * and their charges become carried sums. A charge that is still pending is later settled without its deleted windows.
 */
function* deleteWindows(dialect: Dialect, before: number): Query<number> {
  yield* lockBudgets();
  const rows = yield* rowsOf<{ seq: bigint }>({
    sql: `select seq from windows where ends_at <= ? order by seq limit ${stepRows}`,
    values: [before],
  });
  if (rows.length === 0) return 0;
  const windows = rows.map(({ seq }) => Number(seq));
  yield* write(
    `update budgets set complete_from = gone.ends_at
     from (
       select budget, max(ends_at) as ends_at from windows where ${dialect.isIn("seq", "bigint")} group by budget
     ) gone where budgets.seq = budget and complete_from < gone.ends_at`,
    JSON.stringify(windows),
  );
  for (const statement of dialect.removeWindows(windows)) yield statement;
  return windows.length;
}

/**
 * Repeats a step until it returns 0, and returns the total of its counts. Pauses after each step, so that other
 * processes can write.
 */
async function repeatStep(
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
