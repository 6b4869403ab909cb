import type { Source } from "./charge.ts";
import { add, divideUp, sum, type PicoUsd } from "./money.ts";
import { dayMs, hourMs } from "./time.ts";

/** Kinds of credits in the gateway account: paid in, used, reserved for requests in flight, and remaining. */
export const creditKinds = ["total", "used", "frozen", "available"] as const;
export type CreditKind = (typeof creditKinds)[number];

/** Credits in the gateway's own unit. Null means unknown, never 0. */
export type Credits = Readonly<Record<CreditKind, number | null>>;

/** The figures of the gateway's account record that Farebox stores, under their names in the record. */
export const accountFigures = [
  "equivalent_in_usd",
  "total_credits",
  "used_credits",
  "frozen_credits",
  "expired_credits",
  "inactive_credits",
  "available_credits",
  "credit_remain",
  "credit_used",
  "credit_frozen",
  "llm_remain",
  "llm_used",
] as const;
export type AccountFigure = (typeof accountFigures)[number];

/**
 * Figures as the gateway states them: plain decimals in its own units. Figures that the record does not state are
 * absent.
 */
export type AccountFigures = Readonly<Partial<Record<AccountFigure, string>>>;

/** The ledger's counters at one instant. They start when the ledger is created. */
export interface LedgerTotals {
  /** Number of rows ever written. Each hold adds one. */
  readonly written: number;
  /** Total cost of posted charges by source, including corrections. */
  readonly posted: Readonly<Record<Source, PicoUsd>>;
  /** Total cost of charges with doubts, by source. */
  readonly inDoubt: Readonly<Record<Source, PicoUsd>>;
  readonly requests: number;
  /** Number of posted requests whose model has no price. */
  readonly unpriced: number;
  readonly pending: number;
  /** Number of pending requests whose model has no price. */
  readonly pendingUnpriced: number;
  readonly held: PicoUsd;
}

/**
 * One sample of the gateway's account record, with the ledger's counters before and after it. Times are milliseconds
 * since 1970 UTC.
 */
export interface AccountSample {
  readonly askedAt: number;
  readonly answeredAt: number;
  /** The gateway's id of the account; null if the record states none. */
  readonly account: string | null;
  readonly figures: AccountFigures;
  /** Counters read before Farebox asked the gateway. The posted charges in them were settled by then. */
  readonly before: LedgerTotals;
  /**
   * Counters read after the gateway answered. A request that is in neither set of counters was not yet sent at that
   * time.
   */
  readonly after: LedgerTotals;
}

export function postedTotal({ posted }: LedgerTotals): PicoUsd {
  return sum(Object.values(posted));
}

/**
 * Returns the amount that the account record may or may not include: charges that were settled while the sample was
 * taken, and charges that are still pending.
 */
export function unsettledAt({ before, after }: AccountSample): PicoUsd {
  const settled = postedTotal(after) - postedTotal(before);
  return add((settled > 0n ? settled : 0n) as PicoUsd, after.held);
}

/** Returns true if no request ran from before the first sample until after the second. */
export function isIdleBetween(a: AccountSample, b: AccountSample): boolean {
  return a.before.pending === 0 && a.before.written === b.after.written;
}

const decimal = /^(-?)(\d{1,30})(?:\.(\d{1,30}))?$/;
const decimals = 12;

/** Returns a figure as a multiple of 1e-12 of its unit, truncated; undefined if the text is not a number. */
export function scaledFigure(text: string | undefined): bigint | undefined {
  const match = text === undefined ? null : decimal.exec(text);
  if (match === null) return undefined;
  const [, sign = "", whole = "", fraction = ""] = match;
  return BigInt(sign + whole + fraction.slice(0, decimals).padEnd(decimals, "0"));
}

/** Returns the smallest step in which these figures can change, on the scale of `scaledFigure`; at most `atMost`. */
export function stepOf(texts: readonly (string | undefined)[], atMost: bigint): bigint {
  const finest = Math.max(0, ...texts.map((text) => text?.split(".")[1]?.replace(/0+$/, "").length ?? 0));
  const step = 10n ** BigInt(decimals - Math.min(finest, decimals));
  return step < atMost ? step : atMost;
}

/** Age up to which every sample is kept; older samples are thinned to one an hour. */
const allKeptMs = 7 * dayMs;
/** Age from which only one sample a day is kept. */
const hoursKeptMs = 100 * dayMs;

/**
 * Returns the `askedAt` times of the samples that retention deletes. For each hour, and later for each day, retention
 * keeps the first sample with the smallest unsettled amount. It also keeps the samples around a movement in an idle
 * account. Without them, the movement would look like a difference between gateway and ledger.
 */
export function samplesToThin(samples: readonly AccountSample[], now: number): number[] {
  const old = samples.filter(({ askedAt }) => askedAt < now - allKeptMs);
  const kept = new Map<number, AccountSample>();
  for (const sample of old) {
    const spanMs = sample.askedAt < now - hoursKeptMs ? dayMs : hourMs;
    const span = Math.floor(sample.askedAt / spanMs) * spanMs;
    const best = kept.get(span);
    if (best === undefined || unsettledAt(sample) < unsettledAt(best)) kept.set(span, sample);
  }
  const samplesToKeep = new Set(kept.values());
  old.forEach((sample, index) => {
    const next = samples[index + 1];
    if (next === undefined || !isIdleBetween(sample, next) || !hasMoved(sample, next)) return;
    for (const near of [samples[index - 1], sample, next]) if (near !== undefined) samplesToKeep.add(near);
  });
  return old.filter((sample) => !samplesToKeep.has(sample)).map(({ askedAt }) => askedAt);
}

function hasMoved(a: AccountSample, b: AccountSample): boolean {
  return a.account !== b.account || accountFigures.some((name) => a.figures[name] !== b.figures[name]);
}

/** Way to derive the amount that the gateway has billed, in USD, from its account record. */
export interface Measure {
  readonly name: "used_credits" | "credit_used" | "equivalent_in_usd";
  /** True for a counter, which only rises with use. False for the balance, which payments and expiry also change. */
  readonly isCounter: boolean;
  /** Returns the amount billed since an arbitrary starting point; undefined if the sample lacks the figure. */
  billed(sample: AccountSample): PicoUsd | undefined;
  /** Smallest change that the figure can show. */
  readonly step: PicoUsd;
  /** Returns another figure of the record in USD; undefined if it is missing. */
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
 * Returns the best measure for these samples. Prefers a counter that is not stalled and that all samples state, if the
 * record also states the USD value of its credits. Otherwise uses the balance. Returns undefined if neither is
 * available.
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
  const step = divideUp(stepIn(samples, name, scale), perUsd) as PicoUsd;
  return { name, isCounter: true, billed: (sample) => usd(sample, name), step, usd };
}

function balanceMeasure(samples: readonly AccountSample[]): Measure {
  const usd: Measure["usd"] = ({ figures }, figure) =>
    figure === balance ? (scaledFigure(figures[balance]) as PicoUsd | undefined) : undefined;
  const billed: Measure["billed"] = (sample) => {
    const left = usd(sample, balance);
    return left === undefined ? undefined : (-left as PicoUsd);
  };
  // A balance in whole numbers does not show its precision. This assumes a step of at most a cent.
  const step = stepIn(samples, balance, cent) as PicoUsd;
  return { name: balance, isCounter: false, billed, step, usd };
}

/**
 * Returns the number of credits per USD: a whole number that fits every sample within its precision. Returns undefined
 * if no such number exists, or if too few credits remain for a precision of one in a thousand.
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
  const tolerance = stepIn(samples, left, scale) + perUsd * stepIn(samples, balance, cent);
  const fits = pairs.every(({ credits, usd }) => absolute(credits - perUsd * usd) <= tolerance);
  return perUsd > 0n && fits && tolerance * 1000n <= largest.credits ? perUsd : undefined;
}

/** Returns true if a counter does not move while the ledger and the balance do. Such a counter does not measure use. */
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

function stepIn(samples: readonly AccountSample[], figure: AccountFigure, atMost: bigint): bigint {
  const texts = samples.map(({ figures }) => figures[figure]);
  return stepOf(texts, atMost);
}

function absolute(value: bigint): bigint {
  return value < 0n ? -value : value;
}
