import { scaledFigure, stepOf, type AccountFigure, type AccountSample } from "./account-sample.ts";
import type { PicoUsd } from "./money.ts";

/** A way to read from the record what the gateway has billed, in USD. */
export interface Measure {
  readonly name: "used_credits" | "credit_used" | "equivalent_in_usd";
  /** A counter only rises with use. The balance falls with use, and moves with payments and expiry as well. */
  readonly isCounter: boolean;
  /** Amount billed since some starting point; undefined where the sample does not state it. */
  billed(sample: AccountSample): PicoUsd | undefined;
  /** The smallest step that it can show. */
  readonly step: PicoUsd;
  /** Another figure of the record in USD; undefined where it is missing. */
  usd(sample: AccountSample, figure: AccountFigure): PicoUsd | undefined;
}

const counters = [
  { name: "used_credits", left: "available_credits" },
  { name: "credit_used", left: "credit_remain" },
] as const satisfies readonly { readonly name: AccountFigure; readonly left: AccountFigure }[];

const balance = "equivalent_in_usd";
const scale = 10n ** 12n;
const cent = 10n ** 10n;

/**
 * Returns the best measure for these samples. Prefers a counter that all of them state, that moves, and whose credits
 * the record itself values in USD. Falls back to the balance. Undefined where there is neither.
 */
export function measureOf(samples: readonly AccountSample[]): Measure | undefined {
  for (const { name, left } of counters) {
    const perUsd = creditsPerUsd(samples, left);
    if (perUsd === undefined || samples.some(({ figures }) => scaledFigure(figures[name]) === undefined)) continue;
    const measure = counterMeasure(samples, name, perUsd);
    if (!isStalled(samples, measure)) return measure;
  }
  return samples.some(({ figures }) => scaledFigure(figures[balance]) !== undefined)
    ? balanceMeasure(samples)
    : undefined;
}

function counterMeasure(
  samples: readonly AccountSample[],
  name: "used_credits" | "credit_used",
  perUsd: bigint,
): Measure {
  const usd: Measure["usd"] = ({ figures }, figure) => {
    const value = scaledFigure(figures[figure]);
    if (value === undefined) return undefined;
    return (figure === balance ? value : value / perUsd) as PicoUsd;
  };
  const step = stepOf(
    samples.map(({ figures }) => figures[name]),
    scale,
  );
  return { name, isCounter: true, billed: (sample) => usd(sample, name), step: roundedUp(step, perUsd), usd };
}

function balanceMeasure(samples: readonly AccountSample[]): Measure {
  const usd: Measure["usd"] = ({ figures }, figure) =>
    figure === balance ? (scaledFigure(figures[balance]) as PicoUsd | undefined) : undefined;
  const billed: Measure["billed"] = (sample) => {
    const left = usd(sample, balance);
    return left === undefined ? undefined : (-left as PicoUsd);
  };
  // A whole amount does not show its precision: at best, cents are assumed.
  const step = stepOf(
    samples.map(({ figures }) => figures[balance]),
    cent,
  ) as PicoUsd;
  return { name: balance, isCounter: false, billed, step, usd };
}

/**
 * Returns how many credits make one USD: a whole number that fits every sample to its last digit. Undefined where there
 * is none, or where the credits left are too few to tell to a thousandth.
 */
function creditsPerUsd(samples: readonly AccountSample[], left: AccountFigure): bigint | undefined {
  const pairs = samples.flatMap(({ figures }) => {
    const [credits, usd] = [scaledFigure(figures[left]), scaledFigure(figures[balance])];
    return credits === undefined || usd === undefined || credits <= 0n || usd <= 0n ? [] : [{ credits, usd }];
  });
  const [first, ...others] = pairs;
  if (first === undefined) return undefined;
  const largest = others.reduce((best, pair) => (pair.usd > best.usd ? pair : best), first);
  const perUsd = (largest.credits + largest.usd / 2n) / largest.usd;
  const tolerance =
    stepOf(
      samples.map(({ figures }) => figures[left]),
      scale,
    ) +
    perUsd *
      stepOf(
        samples.map(({ figures }) => figures[balance]),
        cent,
      );
  const fits = pairs.every(({ credits, usd }) => absolute(credits - perUsd * usd) <= tolerance);
  return perUsd > 0n && fits && tolerance * 1000n <= largest.credits ? perUsd : undefined;
}

/** Reports a counter that does not move while the ledger and the balance do: it counts something else. */
function isStalled(samples: readonly AccountSample[], measure: Measure): boolean {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) return true;
  const moved = (figure: AccountFigure) => (measure.usd(last, figure) ?? 0n) - (measure.usd(first, figure) ?? 0n);
  const explained =
    moved("expired_credits") + moved("frozen_credits") + moved("inactive_credits") + moved("credit_frozen");
  return (
    measure.billed(first) === measure.billed(last) &&
    last.after.written > first.before.written &&
    moved(balance) < 0n &&
    explained === 0n
  );
}

function roundedUp(value: bigint, by: bigint): PicoUsd {
  return ((value + by - 1n) / by) as PicoUsd;
}

function absolute(value: bigint): bigint {
  return value < 0n ? -value : value;
}
