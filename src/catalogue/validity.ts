import type { Block } from "./read.ts";
import type { StatedPrice } from "./schema.ts";

/** Dates of a price's validity. */
type Dated = Pick<StatedPrice, "from" | "until">;

/** A price's half-open span of UTC days as instants, milliseconds since 1970. `end` is null while it has no successor. */
export interface Validity {
  readonly start: number;
  readonly end: number | null;
  /** ISO day, exclusive; the successor's `from` where the price states none. */
  readonly until: string | null;
}

/** Midnight UTC of an ISO day that the schema has let through. */
export function instantOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`);
}

/**
 * Spans of prices in their order. A price ends where the next one begins; one that states another end overlaps its
 * successor or leaves a gap, and either is reported, because a gap would make requests free of a price unnoticed.
 * A day that was cut out for a fault of its own is compared with nothing.
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
    if (price?.from !== undefined && next?.from !== undefined) reportJoint(price, next, block.at(index + 1, "from"));
    return { start: instantOf(price?.from ?? ""), end: until === null ? null : instantOf(until), until };
  });
}

function reportJoint(price: Dated, next: Dated, start: Block): void {
  if (next.from <= price.from) {
    start.report(`begins on ${next.from}, but the price above it on ${price.from}; write them in ascending order`);
    return;
  }
  if (price.until === undefined || price.until === next.from) return;
  const fault = price.until > next.from ? "overlaps the price above it" : "leaves a gap after the price above it";
  start.report(`${fault}, which ends on ${price.until}; leave that \`until\` out or write ${next.from} there`);
}
