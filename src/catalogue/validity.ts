import type { Block } from "./read.ts";

/** Days on which a price is valid, as its file states them. */
export interface Dated {
  readonly from: string;
  readonly until?: string | undefined;
}

/**
 * UTC days on which a price is valid, from `start` up to but not including `end`, in milliseconds since 1970. `end` is
 * null if the validity has no end.
 */
export interface Validity {
  readonly start: number;
  readonly end: number | null;
  readonly from: string;
  /** First ISO day after the validity: the stated end, or `from` of the next price; null if there is neither. */
  readonly until: string | null;
}

/** Returns the UTC day of an instant in milliseconds since 1970, as ISO text. */
export function dayOf(instant: number): string {
  return new Date(instant).toISOString().slice(0, 10);
}

/** Returns midnight UTC of an ISO day that the schema has validated, in milliseconds since 1970. */
export function instantOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`);
}

/**
 * Returns the validity of each price, in order. A price ends when the next one begins. Reports a stated end that
 * overlaps the next price. Also reports a stated end that leaves a gap, because requests would have no price in the
 * gap.
 */
export function validities(prices: readonly (Dated | undefined)[], block: Block): readonly Validity[] {
  return prices.map((price, index) => {
    const next = prices[index + 1];
    const until = price?.until ?? next?.from ?? null;
    if (price?.until !== undefined && price.from !== undefined && price.until <= price.from) {
      block
        .at(index, "until")
        .report(`ends on ${price.until}, not after its start on ${price.from}; write a later day or leave it out`);
    }
    if (price?.from !== undefined && next?.from !== undefined)
      reportGapOrOverlap(price, next, block.at(index + 1, "from"));
    const from = price?.from ?? "";
    return { start: instantOf(from), end: until === null ? null : instantOf(until), from, until };
  });
}

function reportGapOrOverlap(price: Dated, next: Dated, start: Block): void {
  if (next.from <= price.from) {
    start.report(
      `begins on ${next.from}, but the price above it begins on ${price.from}; write them in ascending order`,
    );
    return;
  }
  if (price.until === undefined || price.until === next.from) return;
  const fault = price.until > next.from ? "overlaps the price above it" : "leaves a gap after the price above it";
  start.report(`${fault}, which ends on ${price.until}; leave that \`until\` out or write ${next.from} there`);
}

/** A part of a price's validity in which the same levels apply. */
interface Interval {
  /** Index of the price. */
  readonly index: number;
  readonly validity: Validity;
  /** True for the last interval of the last price. */
  readonly ends: boolean;
}

/** Divides the validities of prices at these instants. */
export function* intervalsOf(validities: readonly Validity[], starts: ReadonlySet<number>): Generator<Interval> {
  for (const [index, { start, end, until, from }] of validities.entries()) {
    const inside = [...starts].filter((each) => each > start && each < (end ?? Infinity)).sort((a, b) => a - b);
    for (const [part, begin] of [start, ...inside].entries()) {
      const next = inside[part];
      const validity =
        next === undefined ? { start: begin, end, until, from } : { start: begin, end: next, until: dayOf(next), from };
      const ends = index === validities.length - 1 && next === undefined;
      yield { index, validity: { ...validity, from: part === 0 ? from : dayOf(begin) }, ends };
    }
  }
}
