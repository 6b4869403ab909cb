import type { Source } from "./charge.ts";
import { add, divideUp, sum, type PicoUsd } from "./money.ts";

/** The gateway account's credits: paid in, used, reserved for requests in flight, left. */
export const creditKinds = ["total", "used", "frozen", "available"] as const;
export type CreditKind = (typeof creditKinds)[number];

/** Credits in the gateway's own unit. Null is unknown, never 0. */
export type Credits = Readonly<Record<CreditKind, number | null>>;

/** The figures of the gateway's account record that are kept, under the names that the record has for them. */
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

/** Figures as the gateway stated them: plain decimals in its own units. Missing figures are left out. */
export type AccountFigures = Readonly<Partial<Record<AccountFigure, string>>>;

/** The ledger's own counters at one instant, since its beginning. */
export interface LedgerTotals {
  /** Rows ever written; grows with every hold. */
  readonly written: number;
  /** Costs of posted charges, corrections included. */
  readonly posted: Readonly<Record<Source, PicoUsd>>;
  /** Costs of charges with doubts. */
  readonly inDoubt: Readonly<Record<Source, PicoUsd>>;
  readonly requests: number;
  /** Posted requests whose model has no price. */
  readonly unpriced: number;
  readonly pending: number;
  /** Pending ones whose model has no price. */
  readonly pendingUnpriced: number;
  readonly held: PicoUsd;
}

/**
 * One reading of the gateway's account record, with the ledger's counters around it. Times are milliseconds since 1970
 * UTC.
 */
export interface AccountSample {
  readonly askedAt: number;
  readonly answeredAt: number;
  /** The gateway's id of the account; null where it states none. */
  readonly account: string | null;
  readonly figures: AccountFigures;
  /** Counters before the gateway was asked: these charges had ended by then. */
  readonly before: LedgerTotals;
  /** Counters after it answered: a charge in neither had not been sent by then. */
  readonly after: LedgerTotals;
}

export function postedTotal({ posted }: LedgerTotals): PicoUsd {
  return sum(Object.values(posted));
}

/** Returns the amount that the record may or may not include yet: settled while it was read, or still pending. */
export function unsettledAt({ before, after }: AccountSample): PicoUsd {
  const settled = postedTotal(after) - postedTotal(before);
  return add((settled > 0n ? settled : 0n) as PicoUsd, after.held);
}

/** Reports that no request ran between the two samples. */
export function isIdleBetween(a: AccountSample, b: AccountSample): boolean {
  return a.before.pending === 0 && a.before.written === b.after.written;
}

const decimal = /^(-?)(\d{1,30})(?:\.(\d{1,30}))?$/;
const decimals = 12;

/** Returns a figure in millionths of millionths of its unit, cut off below that; undefined where it is not a number. */
export function scaledFigure(text: string | undefined): bigint | undefined {
  const match = text === undefined ? null : decimal.exec(text);
  if (match === null) return undefined;
  const [, sign = "", whole = "", fraction = ""] = match;
  return BigInt(sign + whole + fraction.slice(0, decimals).padEnd(decimals, "0"));
}

/**
 * Returns the smallest step in which these figures are stated, on the scale of `scaledFigure`; at most the given one.
 */
export function stepOf(texts: readonly (string | undefined)[], atMost: bigint): bigint {
  const finest = Math.max(0, ...texts.map((text) => text?.split(".")[1]?.replace(/0+$/, "").length ?? 0));
  const step = 10n ** BigInt(decimals - Math.min(finest, decimals));
  return step < atMost ? step : atMost;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** Every sample is kept up to this age, then one an hour. */
const allKeptMs = 7 * dayMs;
/** One sample a day is kept from this age on. */
const hoursKeptMs = 100 * dayMs;

/**
 * Returns the samples that retention removes, by their `askedAt`. Of each hour, later of each day, the first sample
 * with the least unsettled stays. Samples next to a movement in an idle account stay too: without them it would look
 * like a difference.
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
  const staying = new Set(kept.values());
  old.forEach((sample, index) => {
    const next = samples[index + 1];
    if (next === undefined || !isIdleBetween(sample, next) || !hasMoved(sample, next)) return;
    for (const beside of [samples[index - 1], sample, next]) if (beside !== undefined) staying.add(beside);
  });
  return old.filter((sample) => !staying.has(sample)).map(({ askedAt }) => askedAt);
}

function hasMoved(a: AccountSample, b: AccountSample): boolean {
  return a.account !== b.account || accountFigures.some((name) => a.figures[name] !== b.figures[name]);
}

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
  // A whole amount does not show its precision: at best, cents are assumed.
  const step = stepIn(samples, balance, cent) as PicoUsd;
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
  const tolerance = stepIn(samples, left, scale) + perUsd * stepIn(samples, balance, cent);
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

function stepIn(samples: readonly AccountSample[], figure: AccountFigure, atMost: bigint): bigint {
  const texts = samples.map(({ figures }) => figures[figure]);
  return stepOf(texts, atMost);
}

function absolute(value: bigint): bigint {
  return value < 0n ? -value : value;
}
