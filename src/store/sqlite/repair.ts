import type { Calendar } from "../../ports/calendar.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Verification } from "../../ports/ledger.ts";
import type { Derived } from "./audit/findings.ts";
import type { Progress } from "./audit/inspect.ts";
import { mend, type Mended } from "./audit/mend.ts";
import { guarded, openCurrent, type CopyFailure } from "./backup.ts";
import { connectToWrite, writeTransaction, type Connection } from "./connection.ts";
import { storedCalendar } from "./open.ts";
import { verify } from "./verify.ts";

/** Derived rows that one round mends at most; the next one finds the others. */
const mendedAtOnce = 100_000;

/** Rounds at most: one mends, and what another process pruned or removed meanwhile is found by the next. */
const roundsMax = 5;

/** The least pause between two transactions, in milliseconds; a step that took longer is followed by as long a pause. */
const pauseMsMin = 2;

export interface RepairOptions {
  readonly path: string;
  /** The zone of a ledger that has none stored yet. */
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** Waits, and keeps the process alive meanwhile. */
  readonly pause: (ms: number) => Promise<unknown>;
  /** Told of each change once it is durable. */
  readonly onMended: (mended: Mended) => void;
  readonly onProgress?: Progress;
}

export type RepairResult =
  /** `verification` is of the ledger as it is afterwards. */
  | { readonly ok: true; readonly verification: Verification }
  | { readonly ok: false; readonly failure: CopyFailure };

/** Later ones are made from what earlier ones mend. */
const order: readonly Derived["of"][] = ["carried", "rollup_day", "rollup_quarter", "window", "links"];

/**
 * Makes every derived row that differs anew from the charges, beside a running proxy or alone: each in a transaction of its
 * own, so that it may be broken off anywhere and done again. Charges, prices and budgets are never touched.
 */
export async function repair(options: RepairOptions): Promise<RepairResult> {
  return await guarded<RepairResult>(async () => {
    const looked = openCurrent(options.path);
    if (!looked.ok) return looked;
    looked.db.close();
    const db = connectToWrite(options.path);
    try {
      const calendar = storedCalendar(db, options.calendar);
      for (let round = 1; ; round++) {
        const { verification, faults } = lookForFaults(db, calendar, options.onProgress);
        const isLast = faults.length === 0 || round > roundsMax;
        // What cannot be mended is found again: the verification of a round that changed nothing is the last word.
        if (isLast || (await mendAll(db, calendar, faults, options)) === 0) return { ok: true, verification };
      }
    } finally {
      db.close();
    }
  });
}

/** Answers how many changes it made. */
async function mendAll(db: Connection, calendar: Calendar, faults: readonly Derived[], { clock, pause, onMended }: RepairOptions): Promise<number> {
  let count = 0;
  for (const derived of faults) {
    const start = clock.monotonic();
    const mended = writeTransaction(db, () => mend(db, calendar, derived));
    for (const each of mended) onMended(each);
    count += mended.length;
    await pause(Math.max(pauseMsMin, clock.monotonic() - start));
  }
  return count;
}

/** The derived rows that differ, each once, in the order of mending; and all that differs. */
function lookForFaults(db: Connection, calendar: Calendar, onProgress?: Progress): { readonly verification: Verification; readonly faults: Derived[] } {
  const faults = new Map<string, Derived>();
  const verification = verify(db, calendar, onProgress, (derived) => {
    if (faults.size < mendedAtOnce) faults.set(JSON.stringify(Object.values(derived)), derived);
  });
  return { verification, faults: [...faults.values()].sort((a, b) => order.indexOf(a.of) - order.indexOf(b.of)) };
}
