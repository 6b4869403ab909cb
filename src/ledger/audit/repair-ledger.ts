import type { Clock } from "../../ports/clock.ts";
import type { Verification } from "../../ports/ledger.ts";
import type { Later } from "../queries/interfaces.ts";
import type { Derived } from "./findings.ts";
import type { Progress } from "./verify-ledger.ts";
import type { RepairedRow } from "./repair-row.ts";

/** Most derived rows that one round repairs; the next round finds the others. */
const repairedAtOnce = 100_000;

/** Most rounds. One repairs; the next finds what another process pruned or removed meanwhile. */
const roundsMax = 5;

/** Shortest pause between two transactions, in milliseconds. A longer step is followed by a pause of its own length. */
const pauseMsMin = 2;

export interface RepairLedgerOptions {
  readonly clock: Clock;
  /** Waits, and keeps the process alive meanwhile. */
  readonly pause: (ms: number) => Promise<unknown>;
  /** Called with each change once it is durable. */
  readonly onRepaired: (repaired: RepairedRow) => void;
  readonly onProgress?: Progress;
}

/** Operations of a ledger that a repair needs. */
export interface Repairable {
  verify(on: {
    readonly onProgress?: Progress | undefined;
    readonly onDerived: (derived: Derived) => void;
  }): Later<Verification>;
  /** Repairs one derived row in a transaction of its own and returns the changes. */
  repairRow(derived: Derived): Later<readonly RepairedRow[]>;
}

/** Order of repair: later rows are computed from earlier ones. */
const order: readonly Derived["of"][] = ["carried", "rollup_day", "rollup_quarter", "window", "links"];

/**
 * Repairs every derived row that differs from its charges, with or without running proxies: each row in a transaction of its
 * own, so that a repair may be interrupted and started again. Never touches charges, prices and budgets. Returns the
 * verification of the repaired ledger.
 */
export async function repairLedger(ledger: Repairable, options: RepairLedgerOptions): Promise<Verification> {
  for (let round = 1; ; round++) {
    const { verification, faults } = await findFaults(ledger, options.onProgress);
    const isLast = faults.length === 0 || round > roundsMax;
    // Faults that cannot be repaired are found again, so a round without a change is the last.
    if (isLast || (await repairAll(ledger, faults, options)) === 0) return verification;
  }
}

/** Returns the number of changes. */
async function repairAll(
  ledger: Repairable,
  faults: readonly Derived[],
  { clock, pause, onRepaired }: RepairLedgerOptions,
): Promise<number> {
  let count = 0;
  for (const derived of faults) {
    const start = clock.monotonic();
    const repaired = await ledger.repairRow(derived);
    for (const each of repaired) onRepaired(each);
    count += repaired.length;
    await pause(Math.max(pauseMsMin, clock.monotonic() - start));
  }
  return count;
}

/** Finds the derived rows that differ, each once and in the order of repair, and all differences. */
async function findFaults(
  ledger: Repairable,
  onProgress?: Progress,
): Promise<{ readonly verification: Verification; readonly faults: Derived[] }> {
  const faults = new Map<string, Derived>();
  const onDerived = (derived: Derived) => {
    if (faults.size < repairedAtOnce) faults.set(JSON.stringify(Object.values(derived)), derived);
  };
  const verification = await ledger.verify({ onProgress, onDerived });
  return { verification, faults: [...faults.values()].sort((a, b) => order.indexOf(a.of) - order.indexOf(b.of)) };
}
