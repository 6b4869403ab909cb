import type { Calendar } from "../../../ports/calendar.ts";
import type { Connection } from "../connection.ts";
import { checkCarried } from "./carried-check.ts";
import { checkPrices, checkTasks } from "./charge-check.ts";
import type { Report } from "./findings.ts";
import { checkDanglingLinks } from "./links-check.ts";
import { Pass } from "./pass.ts";

/** Told the share of the charges that is done, 0 to 1. */
export type Progress = (share: number) => void;

/**
 * Compares every stored sum and amount with what its charges say, from one snapshot and in bounded memory; answers how many
 * charges there are. While it runs the write-ahead log keeps what is written beside it; nothing else waits.
 */
export function inspect(db: Connection, calendar: Calendar, report: Report, onProgress?: Progress): number {
  return db.transaction(() => {
    checkPrices(db, report);
    checkCarried(db, report);
    checkTasks(db, report);
    const total = onProgress === undefined ? 0 : Number(db.prepare("select count(*) from charges").pluck().get());
    const charges = new Pass(db, calendar, report).run((done) => onProgress?.(done / total));
    checkDanglingLinks(db, report);
    return charges;
  })();
}
