import type { Catalogue, CatalogueModel } from "../ports/catalogue.ts";

const dayMs = 86_400_000;

/** Largest age of a review, in days. Prices with an older review may have changed. */
export const reviewDaysMax = 60;

export interface PriceReview {
  /** UTC day of the newest review; null if no price is in force. */
  readonly reviewed_on: string | null;
  readonly age_days: number | null;
  /** True if the review is missing or more than 60 days old. */
  readonly review_due: boolean;
}

/** Returns the newest review of the prices in force. */
export function newestReview(catalogue: Catalogue, now: number): PriceReview {
  const reviews = catalogue.list(now).flatMap((model) => reviewOf(model) ?? []);
  const newest = Math.max(...reviews.filter((at) => at <= now));
  if (!Number.isFinite(newest)) return { reviewed_on: null, age_days: null, review_due: true };
  const days = Math.floor((now - newest) / dayMs);
  return { reviewed_on: new Date(newest).toISOString().slice(0, 10), age_days: days, review_due: days > reviewDaysMax };
}

/**
 * Returns the last day in the source's text: "announced for 2027-01-01, reviewed on 2026-11-22". If it names no day, returns
 * the first day of the price.
 */
function reviewOf({ price }: CatalogueModel): number | undefined {
  if (price === null) return undefined;
  const { source, from } = price.version;
  const days = source.match(/\b\d{4}-\d{2}-\d{2}\b/g) ?? [];
  const known = days.map((day) => Date.parse(day)).filter((at) => !Number.isNaN(at));
  return known.at(-1) ?? Date.parse(from);
}
