import type { Statements } from "./connection.ts";

/** How many months are made ahead of the present one. */
const monthsAhead = 2;

/** The month of UTC that holds an instant, as a number that grows by one a month. */
export function monthOf(at: number): number {
  const date = new Date(at);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/** Makes the partition of charges for the month of an instant, where it is missing. */
export async function ensurePartition(db: Statements, at: number): Promise<void> {
  await db.run("select farebox_ensure_partitions($1)", [at]);
}

/** Makes those of the month of an instant and of the next two. */
export async function ensureMonths(db: Statements, at: number): Promise<void> {
  const month = monthOf(at);
  for (let ahead = 0; ahead <= monthsAhead; ahead++)
    await ensurePartition(db, Date.UTC(Math.floor((month + ahead) / 12), (month + ahead) % 12));
}
