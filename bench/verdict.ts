import type { Sample } from "./load.ts";
import { pairedRatios, spreadOf, type Spread } from "./statistics.ts";

/** Part by which a change may raise the CPU of a workload. */
const allowedRise = 0.15;

/** Targets of a comparison: the bare proxy, the commit to compare with, and this checkout. */
export type ComparedName = "bare" | "base" | "change";

/** Samples of one workload, by target. Samples at the same index were measured in the same round. */
export type Samples = Readonly<Record<ComparedName, readonly Sample[]>>;

interface Verdict {
  /** CPU divided by the bare proxy's CPU in the same round: the median of the rounds, for the other commit. */
  readonly baseByBare: number;
  /** The same for this checkout. */
  readonly changeByBare: number;
  /** This checkout's CPU divided by the other commit's in the same round. */
  readonly changeByBase: Spread;
  /** True if the median of `changeByBase` is more than `allowedRise` above 1, or unknown. */
  readonly isWorse: boolean;
}

export function verdictOn({ bare, base, change }: Samples): Verdict {
  const ratio = (samples: readonly Sample[], to: readonly Sample[]) =>
    spreadOf(pairedRatios(cpuOf(samples), cpuOf(to)));
  const changeByBase = ratio(change, base);
  return {
    baseByBare: ratio(base, bare).median,
    changeByBare: ratio(change, bare).median,
    changeByBase,
    isWorse: !(changeByBase.median <= 1 + allowedRise),
  };
}

/** Returns a line such as `plain: 2.10 x bare before, 2.15 x with the change; ratio 1.02 (0.95-1.10)`. */
export function formatVerdict(name: string, { baseByBare, changeByBare, changeByBase, isWorse }: Verdict): string {
  const { median, min, max } = changeByBase;
  const ratio = `${median.toFixed(2)} (${min.toFixed(2)}-${max.toFixed(2)})`;
  return (
    `${name}: ${baseByBare.toFixed(2)} x bare before, ${changeByBare.toFixed(2)} x with the change; ratio ${ratio}` +
    (isWorse ? `: MORE THAN ${allowedRise * 100}% WORSE` : "")
  );
}

function cpuOf(samples: readonly Sample[]): number[] {
  return samples.map(({ cpuUs, requests }) => (cpuUs ?? Number.NaN) / requests);
}
