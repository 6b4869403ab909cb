import type { Calendar } from "../../ports/calendar.ts";
import {
  carriedId,
  horizons,
  noonOf,
  prunable,
  repeatStep,
  prunePreview,
  type Pruned,
  type PruneOptions,
} from "../pruning.ts";
import { rollupAmounts, rollupCounts } from "../rollups.ts";
import { addedUp } from "./rollups.ts";
import { writeTransaction, connectToRead, connectToWrite, type Connection, type Statement } from "./connection.ts";
import { answer } from "./answer.ts";
import { guarded, openCurrent, type CopyFailure } from "./backup.ts";
import { storedCalendar } from "./open.ts";

/** Charges to delete per transaction. It takes some milliseconds, during which the proxy's writer waits. */
const stepCharges = 200;

/** Approximate number of rows of windows or rollups to delete per transaction. */
const stepRows = 500;

/**
 * Deletes older data in transactions of some milliseconds with pauses, with or without a running proxy. The ledger is
 * consistent after each; an interrupted run continues the next time.
 */
export async function prune(db: Connection, options: PruneOptions): Promise<Pruned> {
  const horizon = horizons(options);
  const repeat = (step: () => number, onStep?: (count: number) => void) =>
    repeatStep(options, () => writeTransaction(db, step), onStep);
  // First the rows that would not match a carried sum, which has the time of noon of its day.
  const quarters = await repeat(deleteQuarters(db, horizon.quarters));
  const windows = await repeat(deleteWindows(db, horizon.charges));
  const carrier = new Carrier(db, options.calendar, horizon.charges);
  let charges = 0;
  const onStep = (count: number) => {
    charges += count;
    options.onProgress?.(charges);
  };
  // A correction is carried before the charge it corrects.
  await repeat(() => carrier.carryCorrections(), onStep);
  await repeat(() => carrier.carryOthers(), onStep);
  return { before: horizon.charges, charges, windows, quarters };
}

/**
 * Deletes windows that ended before the horizon: they are not queried again, and their charges are about to be carried.
 * A charge still pending in one settles without it.
 */
function deleteWindows(db: Connection, before: number): () => number {
  const ended = `select seq from windows where ends_at <= ? order by seq limit ${stepRows}`;
  const unlink = db.prepare(`delete from charge_windows where window in (${ended})`);
  const remove = db.prepare(`delete from windows where seq in (${ended})`);
  return () => {
    unlink.run(before);
    return remove.run(before).changes;
  };
}

/** Stores the horizon first: from then on no query reads the deleted rows. */
function deleteQuarters(db: Connection, before: number): () => number {
  const announce = db.prepare("update meta set quarters_from = max(quarters_from, ?)");
  const oldest = db.prepare("select min(starts_at) from rollup_quarter").pluck();
  const later = db
    .prepare(`select starts_at from rollup_quarter where starts_at > ? order by starts_at limit 1 offset ${stepRows}`)
    .pluck();
  const remove = db.prepare("delete from rollup_quarter where starts_at < ?");
  return () => {
    announce.run(before);
    const first = oldest.get() as number | null;
    if (first === null || first >= before) return 0;
    return remove.run(Math.min((later.get(first) as number | undefined) ?? before, before)).changes;
  };
}

/** Moves charges into carried sums, a batch at a time. */
class Carrier {
  readonly #db: Connection;
  readonly #before: number;
  readonly #sums: Statement;
  readonly #counts: Statement;
  readonly #unlink: Statement;
  readonly #forgetTasks: Statement;
  readonly #forgetCallbacks: Statement;
  readonly #remove: Statement;
  readonly #selectLast: Statement;
  #lastOfStep = beginning;
  #last = beginning;

  constructor(db: Connection, calendar: Calendar, before: number) {
    this.#db = db;
    this.#before = before;
    db.exec("create temp table if not exists step (seq integer primary key)");
    const noon = noonOf(calendar);
    db.function("local_noon", { deterministic: true }, (at: unknown) => BigInt(noon(Number(at))));
    db.function("carried_id", { deterministic: true, varargs: true }, (...identity: unknown[]) =>
      carriedId(calendar, identity),
    );
    this.#sums = db.prepare(
      `insert into charges (id, kind, state, owner, admitted_at, ended_at, key, team, route, model, price_group, stream,
         formula, source, reason, ${rollupAmounts.join(", ")})
       select ${carried.id}, 'request', 'posted', 0, ${carried.at}, ${carried.at}, key, team, 'carried', model, price_group, 0,
         'adjustment', source, 'carried', ${rollupAmounts.map((name) => `coalesce(sum(${name}), 0)`).join(", ")}
       from ${carried.posted} group by 1
       on conflict (id) do update set ${addedUp(rollupAmounts)}`,
    );
    this.#counts = db.prepare(
      `insert into carried (charge, ${rollupCounts.join(", ")})
       select (select seq from charges where id = part.id), ${rollupCounts.map((name) => `part.${name}`).join(", ")}
       from (
         select ${carried.id} id, sum(formula <> 'adjustment') requests, sum(cost is null) unpriced, sum(retry > 0) retries
         from ${carried.posted} group by 1
       ) part where true
       on conflict (charge) do update set ${addedUp(rollupCounts)}`,
    );
    this.#selectLast = db.prepare(
      "select admitted_at at, seq from charges join temp.step using (seq) order by admitted_at desc, seq desc limit 1",
    );
    this.#unlink = db.prepare("delete from charge_windows where charge in (select seq from temp.step)");
    this.#forgetTasks = db.prepare(
      "delete from tasks where charge in (select id from charges join temp.step using (seq) where kind = 'task')",
    );
    this.#forgetCallbacks = db.prepare(
      "delete from task_callbacks where charge in (select id from charges join temp.step using (seq))",
    );
    this.#remove = db.prepare("delete from charges where seq in (select seq from temp.step)");
  }

  /**
   * Carries a batch of corrections, newest first. Needs a transaction; returns the count. Uses their own index, since
   * by time every charge would be read under the write lock.
   */
  carryCorrections(): number {
    return this.#carry("indexed by charges_adjusting", "adjusts is not null order by admitted_at desc, seq desc", {});
  }

  /**
   * Carries a batch of other charges, oldest first. Needs a transaction; returns the count. Each charge that stays is
   * read once.
   */
  carryOthers(): number {
    const after = "admitted_at >= :at and (admitted_at > :at or seq > :seq)";
    const count = this.#carry(
      "indexed by charges_by_time",
      `adjusts is null and ${after} order by admitted_at, seq`,
      this.#last,
    );
    if (count > 0) this.#last = this.#lastOfStep;
    return count;
  }

  #carry(index: string, which: string, from: { readonly at?: number; readonly seq?: number }): number {
    this.#db.exec("delete from temp.step");
    const { changes } = this.#db
      .prepare(
        `insert into temp.step select seq from charges ${index} where ${prunable(":before")} and ${which} limit ${stepCharges}`,
      )
      .run({ before: this.#before, ...from });
    if (changes === 0) return 0;
    this.#lastOfStep = this.#selectLast.get() as Position;
    this.#sums.run();
    this.#counts.run();
    this.#unlink.run();
    this.#forgetTasks.run();
    this.#forgetCallbacks.run();
    this.#remove.run();
    return changes;
  }
}

/** Position of a charge in the order of time. */
interface Position {
  readonly at: number;
  readonly seq: number;
}

const beginning: Position = { at: -1, seq: 0 };

const carried = {
  at: "local_noon(admitted_at)",
  id: "carried_id(local_noon(admitted_at), key, team, model, price_group, source)",
  posted: "charges join temp.step using (seq) where state = 'posted'",
} as const;

export interface PruneFileOptions extends Omit<PruneOptions, "onProgress"> {
  readonly path: string;
  /** Counts without deleting. */
  readonly dryRun: boolean;
  /** Called with the share of charges done, 0 to 1. */
  readonly onProgress?: (share: number) => void;
}

export type PruneFileResult =
  | { readonly ok: true; readonly pruned: Pruned }
  | { readonly ok: false; readonly failure: CopyFailure };

/** Prunes the ledger at a path, in its stored time zone, with or without a running proxy. */
export async function pruneFile({ path, dryRun, onProgress, ...options }: PruneFileOptions): Promise<PruneFileResult> {
  return await guarded<PruneFileResult>(async () => {
    const opened = openCurrent(path);
    if (!opened.ok) return opened;
    opened.db.close();
    const db = dryRun ? connectToRead(path) : connectToWrite(path);
    try {
      const inZone = { ...options, calendar: storedCalendar(db, options.calendar) };
      const preview = answer(db, prunePreview(horizons(inZone)));
      if (dryRun) return { ok: true, pruned: preview };
      const onStep = (charges: number) => onProgress?.(Math.min(charges / Math.max(preview.charges, 1), 1));
      return { ok: true, pruned: await prune(db, { ...inZone, onProgress: onStep }) };
    } finally {
      db.close();
    }
  });
}
