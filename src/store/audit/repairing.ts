import type { Clock } from "../../ports/clock.ts";
import type { Verification } from "../../ports/ledger.ts";
import type { Later } from "../readings.ts";
import type { Derived } from "./findings.ts";
import type { Progress } from "./inspect.ts";
import type { Mended } from "./mend.ts";

/** Derived rows that one round mends at most; the next one finds the others. */
const mendedAtOnce = 100_000;

/** Rounds at most: one mends, and what another process pruned or removed meanwhile is found by the next. */
const roundsMax = 5;

/** The least pause between two transactions, in milliseconds; a step that took longer is followed by as long a pause. */
const pauseMsMin = 2;

export interface RepairingOptions {
  readonly clock: Clock;
  /** Waits, and keeps the process alive meanwhile. */
  readonly pause: (ms: number) => Promise<unknown>;
  /** Told of each change once it is durable. */
  readonly onMended: (mended: Mended) => void;
  readonly onProgress?: Progress;
}

/** A ledger as a repair uses it. */
export interface Repairable {
  verify(on: {
    readonly onProgress?: Progress | undefined;
    readonly onDerived: (derived: Derived) => void;
  }): Later<Verification>;
  /** Makes one derived row anew, in a transaction of its own; answers what it changed. */
  mend(derived: Derived): Later<readonly Mended[]>;
}

/** Later ones are made from what earlier ones mend. */
const order: readonly Derived["of"][] = ["carried", "rollup_day", "rollup_quarter", "window", "links"];

/**
 * Makes every derived row that differs anew from the charges, beside running proxies or alone: each in a transaction of its
 * own, so that it may be broken off anywhere and done again. Charges, prices and budgets are never touched. Answers the
 * verification of the ledger as it is afterwards.
 */
export async function repairing(ledger: Repairable, options: RepairingOptions): Promise<Verification> {
  for (let round = 1; ; round++) {
    const { verification, faults } = await lookForFaults(ledger, options.onProgress);
    const isLast = faults.length === 0 || round > roundsMax;
    // What cannot be mended is found again: the verification of a round that changed nothing is the last word.
    if (isLast || (await mendAll(ledger, faults, options)) === 0) return verification;
  }
}

/** Answers how many changes it made. */
async function mendAll(
  ledger: Repairable,
  faults: readonly Derived[],
  { clock, pause, onMended }: RepairingOptions,
): Promise<number> {
  let count = 0;
  for (const derived of faults) {
    const start = clock.monotonic();
    const mended = await ledger.mend(derived);
    for (const each of mended) onMended(each);
    count += mended.length;
    await pause(Math.max(pauseMsMin, clock.monotonic() - start));
  }
  return count;
}

/** The derived rows that differ, each once, in the order of mending; and all that differs. */
async function lookForFaults(
  ledger: Repairable,
  onProgress?: Progress,
): Promise<{ readonly verification: Verification; readonly faults: Derived[] }> {
  const faults = new Map<string, Derived>();
  const onDerived = (derived: Derived) => {
    if (faults.size < mendedAtOnce) faults.set(JSON.stringify(Object.values(derived)), derived);
  };
  const verification = await ledger.verify({ onProgress, onDerived });
  return { verification, faults: [...faults.values()].sort((a, b) => order.indexOf(a.of) - order.indexOf(b.of)) };
}
