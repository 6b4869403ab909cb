import type { PicoUsd } from "./money.ts";
import { scaleTokens, type Permille } from "./tokens.ts";

/*
 * A stream that states no maximum holds a slice of output at first, and its hold grows as it runs. All figures are
 * output tokens of all choices together.
 */

/** By how much a hold grows, and up to where. */
export interface Slices {
  /** Held at first and grown by; at least 2. */
  readonly sliceTokens: number;
  /** The most that the model writes: a hold that covers it is the worst case, which nothing outgrows. */
  readonly outputTokensMax: number;
}

/** Where a stream stands under its hold. */
export interface HoldProgress {
  /** What the hold covers. */
  readonly covered: number;
  /** Written, by the tokenizer, or by bytes where no tokenizer counts it. */
  readonly counted: number;
  /** At most so many more were written, which the tokenizer has not seen. */
  readonly uncounted: number;
  /** An extension was refused since the hold last grew: the next is asked for only where it cannot go on without. */
  readonly refused: boolean;
}

/**
 * `wait`: nothing to do before more is written. `count`: the tokenizer may show that less was written than it seems.
 * `extend`: the hold must grow.
 */
export type Step = "wait" | "count" | "extend";

/** Kept for what the gateway has sent and nobody has read yet. */
export function reserveTokens({ sliceTokens }: Pick<Slices, "sliceTokens">): number {
  return Math.ceil(sliceTokens / 4);
}

export function isWorstCase({ covered }: HoldProgress, { outputTokensMax }: Slices): boolean {
  return covered >= outputTokensMax;
}

/** Whether nothing more may be read before the hold has grown, or a count has shown that there is room. */
export function mustPause(progress: HoldProgress, slices: Slices): boolean {
  return !isWorstCase(progress, slices) && written(progress) >= pauseLine(progress, slices);
}

/** Half a slice before its end the hold is extended; where that was refused, the rest is used up to the reserve first. */
export function nextStep(progress: HoldProgress, slices: Slices): Step {
  if (isWorstCase(progress, slices)) return "wait";
  const line = progress.refused ? pauseLine(progress, slices) : progress.covered - Math.ceil(slices.sliceTokens / 2);
  if (written(progress) < line) return "wait";
  // Near the line a count changes little: the next tokens reach it all the same.
  const near = progress.refused ? Math.min(slices.sliceTokens / 16, 8) : slices.sliceTokens / 8;
  return progress.uncounted > 0 && progress.counted < line - near ? "count" : "extend";
}

/**
 * How far a count may pass a stated maximum before the gateway is taken not to obey it: a tenth, what the tokenizer may err
 * by, and some tokens that no text shows.
 */
export function statedSlack(statedTokens: number, errorFactor: Permille): number {
  return scaleTokens(statedTokens, errorFactor) - statedTokens + Math.ceil(statedTokens / 10) + 64;
}

/** Whether more may have been written than a stated maximum allows. */
export function exceedsStated(progress: HoldProgress, slices: Slices): boolean {
  return !isWorstCase(progress, slices) && written(progress) > progress.covered;
}

/** As `nextStep` for a stated maximum: its stream ends by itself, so nothing is done before it has passed it by a count. */
export function stepBeyondStated(progress: HoldProgress, slices: Slices): Step {
  if (!exceedsStated(progress, slices)) return "wait";
  return progress.uncounted > 0 ? "count" : "extend";
}

/** Up to where a hold should cover next, and the least that lets the stream go on. */
export function nextCover(progress: HoldProgress, slices: Slices): { readonly wanted: number; readonly least: number } {
  const from = Math.max(progress.covered, written(progress));
  const within = (tokens: number) => Math.min(tokens, slices.outputTokensMax);
  return { wanted: within(from + slices.sliceTokens), least: within(from + reserveTokens(slices) + 1) };
}

/** How a stream was written so far: tokens and the time from its first text to its last. Milliseconds. */
export interface WritingPace {
  readonly tokens: number;
  readonly tookMs: number;
}

/**
 * What the gateway has written, at the stream's own pace, and nobody will read: since the last text and until it hears that
 * the stream is ended. At most the reserve, which is kept for that.
 */
export function tokensInFlight({ tokens, tookMs }: WritingPace, unreadMs: number, slices: Slices): number {
  const reserve = reserveTokens(slices);
  return tookMs > 0 ? Math.min(Math.ceil((tokens * unreadMs) / tookMs), reserve) : reserve;
}

/** The most tokens, up to `max`, that a hold of this amount pays for; 0 where it pays for none. `costAt` must never fall. */
export function tokensCovered(hold: PicoUsd, costAt: (tokens: number) => PicoUsd, max: number): number {
  if (costAt(max) <= hold) return max;
  let paid = 0;
  let unpaid = max;
  while (unpaid - paid > 1) {
    const middle = Math.floor((paid + unpaid) / 2);
    if (costAt(middle) <= hold) paid = middle;
    else unpaid = middle;
  }
  return paid;
}

function written({ counted, uncounted }: HoldProgress): number {
  return counted + uncounted;
}

function pauseLine({ covered }: HoldProgress, slices: Slices): number {
  return covered - reserveTokens(slices);
}
