import type { Connection } from "../connection.ts";
import type { Report } from "./findings.ts";

/**
 * Links of charges that have ended, from or to nothing: rows get used numbers again, so that such a link could one day be
 * another charge's. Those of pending charges are compared one by one.
 */
export function checkDanglingLinks(db: Connection, report: Report): void {
  const rows = db
    .prepare(
      `select charge, window, charges.id from charge_windows left join charges on charges.seq = charge
       where (charges.seq is null or not exists (select 1 from windows where windows.seq = window)) and charges.state is not 'pending'`,
    )
    .iterate() as IterableIterator<{ charge: number; window: number; id: string | null }>;
  for (const { charge, window, id } of rows) {
    const found = id === null ? `no charge ${charge}` : `no window ${window}`;
    report({ kind: "link", id: id ?? String(charge), expected: "a charge and its window", found, derived: { of: "links", charge } });
  }
}
