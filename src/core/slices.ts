import type { PicoUsd } from "./money.ts";
import { scaleTokens, type Permille } from "./usage.ts";
import { dayMs, hourMs } from "./time.ts";

/**
 * A stream without a stated maximum starts with a hold for one slice of output. The hold grows while the stream runs.
 * All token numbers are output tokens of all choices together.
 */

/** Step by which a hold grows, and its upper bound. */
export interface Slices {
  /** Size of the first hold and of each extension; at least 2. */
  readonly sliceTokens: number;
  /** Largest number of tokens that the model writes. A hold for this number covers the worst case. */
  readonly outputTokensMax: number;
}

/** Progress of a stream's output relative to its hold. */
export interface HoldProgress {
  /** Tokens that the hold covers. */
  readonly covered: number;
  /** Number of written tokens: counted by the tokenizer, or estimated from bytes if no tokenizer counts them. */
  readonly counted: number;
  /** Largest number of written tokens that the tokenizer has not counted yet. */
  readonly uncounted: number;
  /**
   * True after an extension was refused. The next extension is requested only when the stream cannot continue without
   * it.
   */
  readonly refused: boolean;
}

/**
 * `wait`: nothing to do until more output is written. `count`: the tokenizer should count, because `uncounted` may be
 * too high. `extend`: the hold must grow.
 */
export type Step = "wait" | "count" | "extend";

/** Returns the part of a hold that is kept for tokens that the gateway has sent but Farebox has not read yet. */
export function reserveTokens({ sliceTokens }: Pick<Slices, "sliceTokens">): number {
  return Math.ceil(sliceTokens / 4);
}

export function isWorstCase({ covered }: Pick<HoldProgress, "covered">, { outputTokensMax }: Slices): boolean {
  return covered >= outputTokensMax;
}

/** Returns true if reading must pause until the hold has grown, or until a count shows that enough of it remains. */
export function mustPause(progress: HoldProgress, slices: Slices): boolean {
  return !isWorstCase(progress, slices) && written(progress) >= pauseThreshold(progress, slices);
}

/**
 * Returns the next step: `wait` until only half a slice of the hold is left or, after a refused extension, only the
 * reserve.
 */
export function nextStep(progress: HoldProgress, slices: Slices): Step {
  if (isWorstCase(progress, slices)) return "wait";
  const threshold = progress.refused
    ? pauseThreshold(progress, slices)
    : progress.covered - Math.ceil(slices.sliceTokens / 2);
  if (written(progress) < threshold) return "wait";
  // Near the threshold, a count does not help: the next few tokens exceed the threshold anyway.
  const near = progress.refused ? Math.min(slices.sliceTokens / 16, 8) : slices.sliceTokens / 8;
  return progress.uncounted > 0 && progress.counted < threshold - near ? "count" : "extend";
}

/**
 * Returns the number of tokens by which a count may exceed a stated maximum. If a count exceeds the maximum by more,
 * Farebox concludes that the gateway ignores the maximum. The number is the sum of a tenth of the maximum, the
 * tokenizer's error, and 64 tokens that do not appear as text.
 */
export function statedSlack(statedTokens: number, errorFactor: Permille): number {
  return scaleTokens(statedTokens, errorFactor) - statedTokens + Math.ceil(statedTokens / 10) + 64;
}

/** Returns true if more tokens may have been written than the stated maximum allows. */
export function exceedsStated(progress: HoldProgress, slices: Slices): boolean {
  return !isWorstCase(progress, slices) && written(progress) > progress.covered;
}

/**
 * Returns the next step for a request with a stated maximum. The gateway should end the stream at the maximum, so
 * Farebox acts only if more may have been written.
 */
export function stepBeyondStated(progress: HoldProgress, slices: Slices): Step {
  if (!exceedsStated(progress, slices)) return "wait";
  return progress.uncounted > 0 ? "count" : "extend";
}

/**
 * Returns the number of tokens that an extended hold should cover, and the smallest number that lets the stream
 * continue.
 */
export function nextCover(progress: HoldProgress, slices: Slices): { readonly wanted: number; readonly least: number } {
  const from = Math.max(progress.covered, written(progress));
  const within = (tokens: number) => Math.min(tokens, slices.outputTokensMax);
  return { wanted: within(from + slices.sliceTokens), least: within(from + reserveTokens(slices) + 1) };
}

/** Pace of a stream: its tokens, and the time between its first and its last text, in milliseconds. */
export interface WritingPace {
  readonly tokens: number;
  readonly tookMs: number;
}

/**
 * Returns the number of tokens that the gateway writes after the last text that was read, until it notices that Farebox
 * ended the stream. `unreadMs`: length of this time, in milliseconds. Assumes the stream's pace. The number is at most
 * the reserve, and equals the reserve if the pace is unknown.
 */
export function tokensInFlight({ tokens, tookMs }: WritingPace, unreadMs: number, slices: Slices): number {
  const reserve = reserveTokens(slices);
  return tookMs > 0 ? Math.min(Math.ceil((tokens * unreadMs) / tookMs), reserve) : reserve;
}

/**
 * Returns the largest number of tokens, up to `max`, that a hold covers; 0 if it covers none. `costAt` must never
 * decrease.
 */
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

function pauseThreshold({ covered }: HoldProgress, slices: Slices): number {
  return covered - reserveTokens(slices);
}

/**
 * Slices are safe only if the gateway generates while it streams. A stream that delivers more at once than the
 * reserve covers marks its model. Answers of a marked model are held in full.
 * docs/decisions/0013-a-burst-marks-a-model.md
 */

/** `live`: the gateway generates while it streams. `burst`: the gateway may deliver an answer all at once. */
export const streamKinds = ["live", "burst"] as const;
export type StreamKind = (typeof streamKinds)[number];

/** Marks a model whose answer arrived all at once, for one key or for all keys. */
export interface BurstMark {
  /** The key's id, or `everyKey`. */
  readonly key: string;
  readonly model: string;
  /** Time of the last burst, in milliseconds since 1970 UTC. */
  readonly at: number;
  /** Number of live streams since the last burst. */
  readonly live: number;
}

/** The observed kind of a stream. */
export interface StreamObservation {
  readonly key: string;
  readonly model: string;
  readonly kind: StreamKind;
}

/** Key id of a mark that applies to all keys. No key has this id. */
export const everyKey = "*";
/** Shortest time for which a mark applies after a burst, in milliseconds. */
export const markMs = hourMs;
/** Number of live streams after which a mark is removed, once `markMs` has passed. */
export const liveStreamsMin = 3;
/** Time after the last burst at which a mark is deleted in any case, in milliseconds. */
export const markKeptMs = 30 * dayMs;

/**
 * Returns the marks of a model after a stream of that model. `before`: all marks of the model before the stream. Bursts
 * of two keys within `markMs` mark the model for all keys.
 */
export function marksAfter(
  before: readonly BurstMark[],
  { key, model, kind }: StreamObservation,
  at: number,
): BurstMark[] {
  const marks = before.filter((mark) => mark.at >= at - markKeptMs);
  const isNear = (mark: BurstMark) => Math.abs(at - mark.at) < markMs;
  if (kind === "live") {
    return marks
      .map((mark) => (mark.key === key || mark.key === everyKey ? { ...mark, live: mark.live + 1 } : mark))
      .filter((mark) => isNear(mark) || mark.live < liveStreamsMin);
  }
  const others = marks.filter((mark) => mark.key !== key && mark.key !== everyKey);
  const ofAll = marks.filter((mark) => mark.key === everyKey);
  const isForAll = ofAll.length > 0 || others.some(isNear);
  const fresh = (whose: string): BurstMark => ({ key: whose, model, at, live: 0 });
  return [...others, fresh(key), ...(isForAll ? [fresh(everyKey)] : [])];
}

/** Text that arrives within this time counts as arriving at once, in milliseconds. */
const atOnceMs = 100;
/**
 * Number of tokens that may always arrive at once. A live stream writes them in two seconds, and they may accumulate
 * while the network or this process stalls.
 */
const atOnceTokensMin = 256;
/** Largest number of tokens that a live gateway generates during one second of paused reading. */
const pausedTokensPerSecond = 500;
/** Approximate number of bytes in a token. It avoids the use of a tokenizer. */
const bytesPerToken = 4;

/** Detects whether a stream's text arrives all at once, from the sizes and times of its parts. */
export class BurstDetector {
  readonly #tokensMax: number;
  #totalBytes = 0;
  #newBytes = 0;
  #windowBytes = 0;
  #windowAt = -Infinity;
  #pausedAtWindow = 0;
  #pausedAtUpdate = 0;
  isBurst = false;

  constructor(slices: Pick<Slices, "sliceTokens">) {
    this.#tokensMax = Math.max(reserveTokens(slices), atOnceTokensMin);
  }

  /** True if the stream wrote enough text to decide, and is not a burst. */
  get isLive(): boolean {
    return !this.isBurst && this.#totalBytes > this.#tokensMax * bytesPerToken;
  }

  wrote(bytes: number): void {
    this.#newBytes += bytes;
  }

  /**
   * Updates the decision after each chunk. Returns true once, when the stream is found to be a burst. `pausedMs` is
   * the total time for which reading was paused, in milliseconds.
   */
  update(now: number, pausedMs: number): boolean {
    if (now - this.#windowAt > atOnceMs) {
      this.#windowAt = now;
      this.#windowBytes = 0;
      this.#pausedAtWindow = this.#pausedAtUpdate;
    }
    this.#pausedAtUpdate = pausedMs;
    this.#totalBytes += this.#newBytes;
    this.#windowBytes += this.#newBytes;
    this.#newBytes = 0;
    const paused = pausedMs - this.#pausedAtWindow;
    const most = this.#tokensMax + (paused / 1000) * pausedTokensPerSecond;
    if (this.isBurst || this.#windowBytes <= most * bytesPerToken) return false;
    this.isBurst = true;
    return true;
  }
}
