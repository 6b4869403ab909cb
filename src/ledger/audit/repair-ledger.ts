import type { Calendar } from "../../ports/calendar.ts";
import type { Clock } from "../../ports/clock.ts";
import type { RepairedRow, Verification } from "../../ports/ledger.ts";
import type { Derived } from "./findings.ts";
import type { Progress } from "./verify-ledger.ts";
import type { MaintainedLedger, MaintenanceFailure, OpenLedger } from "../maintenance.ts";
import { reopenSpans, repairRow } from "./repair-row.ts";

/** Largest number of derived rows that one round repairs. The next round finds the others. */
const repairedAtOnce = 100_000;

/** Largest number of repair rounds. A later round finds rows that other processes changed during an earlier round. */
const roundsMax = 5;

/**
 * Shortest pause after a transaction, in milliseconds. After a longer transaction, the pause is as long as the
 * transaction.
 */
const pauseMsMin = 2;

export interface RepairOptions {
  readonly calendar: Calendar;
  readonly clock: Clock;
  /** Waits for a time, and keeps the process alive meanwhile. */
  readonly pause: (ms: number) => Promise<unknown>;
  /** Receives each change once it is durable. */
  readonly onRepaired: (repaired: RepairedRow) => void;
  readonly onProgress?: Progress;
}

/** Order of repair. Rows of a later kind are computed from rows of earlier kinds. */
const order: readonly Derived["of"][] = ["carried", "rollup_day", "rollup_quarter", "lost_window", "window", "links"];

/** Repairs a ledger. Returns the verification of the repaired ledger. */
export function repair(
  open: OpenLedger,
  { calendar, ...options }: RepairOptions,
): Promise<{ readonly ok: true; readonly verification: Verification } | MaintenanceFailure> {
  const work = async (ledger: MaintainedLedger) =>
    ({ ok: true, verification: await repairLedger(ledger, options) }) as const;
  return open(work, { calendar, access: "write" });
}

/**
 * Repairs every derived row that differs from its charges. Proxies may run meanwhile. Each row has a separate
 * transaction, so an interrupted repair can be run again. Never changes charges, prices or budgets. Returns the
 * verification of the repaired ledger.
 */
async function repairLedger(ledger: MaintainedLedger, options: Omit<RepairOptions, "calendar">): Promise<Verification> {
  for (let round = 1; ; round++) {
    const { verification, faults } = await findFaults(ledger, options.onProgress);
    const isLast = faults.length === 0 || round > roundsMax;
    if (!isLast) await ledger.write(reopenSpans);
    // Some faults cannot be repaired, so a round that changes nothing is the last.
    if (isLast || (await repairAll(ledger, faults, options)) === 0) return verification;
  }
}

/** Repairs the given derived rows and returns the number of changes. */
async function repairAll(
  ledger: MaintainedLedger,
  faults: readonly Derived[],
  { clock, pause, onRepaired }: Pick<RepairOptions, "clock" | "pause" | "onRepaired">,
): Promise<number> {
  let count = 0;
  for (const derived of faults) {
    const start = clock.monotonic();
    const repaired = await ledger.write(() => repairRow(ledger.dialect, ledger.calendar, derived));
    for (const each of repaired) onRepaired(each);
    count += repaired.length;
    await pause(Math.max(pauseMsMin, clock.monotonic() - start));
  }
  return count;
}

/**
 * Verifies the ledger. Returns the verification, and at most `repairedAtOnce` derived rows to repair, in the order of
 * repair.
 */
async function findFaults(
  ledger: MaintainedLedger,
  onProgress?: Progress,
): Promise<{ readonly verification: Verification; readonly faults: Derived[] }> {
  const faults = new Map<string, Derived>();
  const onDerived = (derived: Derived) => {
    if (faults.size < repairedAtOnce) faults.set(JSON.stringify(Object.values(derived)), derived);
  };
  const verification = await ledger.verify({ onProgress, onDerived });
  return { verification, faults: [...faults.values()].sort((a, b) => order.indexOf(a.of) - order.indexOf(b.of)) };
}
