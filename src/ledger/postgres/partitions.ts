import { isLockTimeout, type Statements, type Database } from "./connection.ts";
import { lockBudgets } from "./budget-steps.ts";

/** Number of coming months for which partitions are created. */
const monthsAhead = 2;

/** Returns the UTC month of an instant, as a number that grows by one per month. */
export function monthOf(at: number): number {
  const date = new Date(at);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/** Creates the partition of charges for an instant's month if it is missing. */
export async function ensurePartition(db: Statements, at: number): Promise<void> {
  await db.run("select farebox_ensure_partitions($1)", [at]);
}

/** Creates the partitions of an instant's month and of the next two months. */
export async function ensureMonths(db: Statements, at: number): Promise<void> {
  const month = monthOf(at);
  for (let ahead = 0; ahead <= monthsAhead; ahead++)
    await ensurePartition(db, Date.UTC(Math.floor((month + ahead) / 12), (month + ahead) % 12));
}

/**
 * Longest wait for a lock during the replacement of a month, in milliseconds. Holds wait meanwhile. If another process
 * reads the month for longer, the next prune tries again.
 */
const lockMs = 500;
/** Least space that the replacement of a month must free, in bytes. */
const freedBytesMin = 256 * 1024;
/** Estimated size of a row, in bytes. */
const rowBytes = 2_048;

interface Month {
  readonly name: string;
  readonly bound: string;
  readonly bytes: bigint;
}

/**
 * Frees the disk space of months that end before an instant. Drops each empty month. Moves the remaining rows of a
 * nearly empty month to a new table, which replaces the old one. Each month takes one transaction of a few
 * milliseconds.
 */
export async function dropEmptiedMonths(database: Database, before: number): Promise<void> {
  const months = await database.rows<Month>(
    `select relname as name, pg_get_expr(relpartbound, oid) as bound, pg_total_relation_size(oid) as bytes
     from pg_inherits join pg_class on oid = inhrelid where inhparent = 'charges'::regclass order by relname`,
  );
  for (const month of months) {
    const [since, until] = [...month.bound.matchAll(/\d+/g)].map(([digits]) => Number(digits));
    if (since === undefined || until === undefined || until > before) continue;
    const left = await database.row<{ rows: bigint }>(`select count(*) as rows from ${month.name}`);
    const rows = Number(left?.rows ?? 0n);
    if (rows > 0 && Number(month.bytes) < freedBytesMin + rows * rowBytes) continue;
    try {
      await database.transaction((db) => replaceMonth(db, month.name, since, until));
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
    }
  }
}

async function replaceMonth(db: Statements, name: string, since: number, until: number): Promise<void> {
  await db.run(`set local lock_timeout = ${lockMs}`);
  // Delays the batches of proxies until the transaction ends.
  await lockBudgets(db);
  await db.run("lock table charges in access exclusive mode");
  const isEmpty = (await db.row(`select 1 from ${name} limit 1`)) === undefined;
  if (!isEmpty) {
    await db.run(`create table ${name}_rest (like charges including defaults including constraints)`);
    await db.run(`insert into ${name}_rest select * from ${name}`);
  }
  await db.run(`alter table charges detach partition ${name}`);
  await db.run(`drop table ${name}`);
  if (isEmpty) return;
  await db.run(`alter table ${name}_rest rename to ${name}`);
  await db.run(`alter table charges attach partition ${name} for values from (${since}) to (${until})`);
}
