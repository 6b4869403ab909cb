import type { PicoUsd } from "./money.ts";
import { scaleTokens, type Permille } from "./usage.ts";

/**
 * A stream without a stated maximum first holds a slice of output, and its hold grows while it runs. All figures are
 * output tokens of all choices together.
 */

/** Step by which a hold grows, and its maximum. */
export interface Slices {
  /** First hold and each extension; at least 2. */
  readonly sliceTokens: number;
  /** Most tokens that the model writes: a hold that covers them is the worst case. */
  readonly outputTokensMax: number;
}

/** Output of a stream compared with its hold. */
export interface HoldProgress {
  /** Tokens that the hold covers. */
  readonly covered: number;
  /** Written tokens, by the tokenizer, or by bytes where no tokenizer counts them. */
  readonly counted: number;
  /** Most written tokens that the tokenizer has not counted yet. */
  readonly uncounted: number;
  /** True after a refused extension: the next is requested only when the stream cannot continue without it. */
  readonly refused: boolean;
}

/**
 * `wait`: nothing to do before more is written. `count`: the tokenizer may find that less was written. `extend`: the
 * hold must grow.
 */
export type Step = "wait" | "count" | "extend";

/** Returns the reserve for bytes that the gateway has sent and no one has read yet. */
export function reserveTokens({ sliceTokens }: Pick<Slices, "sliceTokens">): number {
  return Math.ceil(sliceTokens / 4);
}

export function isWorstCase({ covered }: HoldProgress, { outputTokensMax }: Slices): boolean {
  return covered >= outputTokensMax;
}

/** Reports that reading must pause until the hold has grown, or a count has found room. */
export function mustPause(progress: HoldProgress, slices: Slices): boolean {
  return !isWorstCase(progress, slices) && written(progress) >= pauseLine(progress, slices);
}

/** Extends the hold half a slice before its end. After a refusal, uses the rest up to the reserve first. */
export function nextStep(progress: HoldProgress, slices: Slices): Step {
  if (isWorstCase(progress, slices)) return "wait";
  const line = progress.refused ? pauseLine(progress, slices) : progress.covered - Math.ceil(slices.sliceTokens / 2);
  if (written(progress) < line) return "wait";
  // Near the line a count changes little: the next tokens reach it all the same.
  const near = progress.refused ? Math.min(slices.sliceTokens / 16, 8) : slices.sliceTokens / 8;
  return progress.uncounted > 0 && progress.counted < line - near ? "count" : "extend";
}

/**
 * Returns how far a count may exceed a stated maximum before the gateway is considered to ignore it: a tenth, the
 * tokenizer's error, and some tokens that no text shows.
 */
export function statedSlack(statedTokens: number, errorFactor: Permille): number {
  return scaleTokens(statedTokens, errorFactor) - statedTokens + Math.ceil(statedTokens / 10) + 64;
}

/** Reports that more may have been written than a stated maximum allows. */
export function exceedsStated(progress: HoldProgress, slices: Slices): boolean {
  return !isWorstCase(progress, slices) && written(progress) > progress.covered;
}

/** Does what `nextStep` does for a stated maximum: the stream ends at it, so nothing is done before a count exceeds it. */
export function stepBeyondStated(progress: HoldProgress, slices: Slices): Step {
  if (!exceedsStated(progress, slices)) return "wait";
  return progress.uncounted > 0 ? "count" : "extend";
}

/** Returns the next cover of a hold, and the least that lets the stream continue. */
export function nextCover(progress: HoldProgress, slices: Slices): { readonly wanted: number; readonly least: number } {
  const from = Math.max(progress.covered, written(progress));
  const within = (tokens: number) => Math.min(tokens, slices.outputTokensMax);
  return { wanted: within(from + slices.sliceTokens), least: within(from + reserveTokens(slices) + 1) };
}

/** Pace of a stream: its tokens, and the time from its first text to its last in milliseconds. */
export interface WritingPace {
  readonly tokens: number;
  readonly tookMs: number;
}

/**
 * Returns the tokens that the gateway wrote, at the stream's pace, and no one will read: from the last text until it
 * learns of the end. At most the reserve.
 */
export function tokensInFlight({ tokens, tookMs }: WritingPace, unreadMs: number, slices: Slices): number {
  const reserve = reserveTokens(slices);
  return tookMs > 0 ? Math.min(Math.ceil((tokens * unreadMs) / tookMs), reserve) : reserve;
}

/** Returns the most tokens, up to `max`, that a hold pays for; 0 for none. `costAt` must never fall. */
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

/**
 * Slices are safe only where a gateway generates while it streams. A stream that delivers more at once than the reserve
 * covers marks its model, and answers of a marked model are held whole. docs/decisions/0013-a-burst-marks-a-model.md
 */

/** `live`: the gateway generates while it streams. `burst`: an answer may come at once. */
export const streamKinds = ["live", "burst"] as const;
export type StreamKind = (typeof streamKinds)[number];

/** A mark of a model whose answer came at once, for one key or for all. */
export interface BurstMark {
  /** The key's id, or `everyKey`. */
  readonly key: string;
  readonly model: string;
  /** The last burst. Milliseconds since 1970 UTC. */
  readonly at: number;
  /** Streams that came live since. */
  readonly live: number;
}

/** Kind of a watched stream. */
export interface StreamObservation {
  readonly key: string;
  readonly model: string;
  readonly kind: StreamKind;
}

/** The mark of all keys; no key has this id. */
export const everyKey = "*";
export const markMs = 3_600_000;
export const liveStreamsMin = 3;
/** Age at which an unused mark is forgotten, in milliseconds. */
export const markKeptMs = 30 * 86_400_000;

/** Returns the marks of a model after a stream; `before` are all of its marks. */
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

/** Text within this time counts as arriving at once, in milliseconds. */
const atOnceMs = 100;
/** Two seconds of a live stream: the most that a stall of the network or of this process holds back. */
const atOnceTokensMin = 256;
/** Most tokens that a live gateway generates in each second of a reading pause. */
const pausedTokensPerSecond = 500;
/** An approximation, without the tokenizer. */
const bytesPerToken = 4;

/** Judges whether a stream comes as it is generated, by its text alone. */
export class BurstJudge {
  readonly #tokensMax: number;
  #all = 0;
  /** Bytes since the last update. */
  #fresh = 0;
  #inWindow = 0;
  #windowAt = -Infinity;
  #pausedAtWindow = 0;
  #pausedAtUpdate = 0;
  isBurst = false;

  constructor(slices: Pick<Slices, "sliceTokens">) {
    this.#tokensMax = Math.max(reserveTokens(slices), atOnceTokensMin);
  }

  /** True if it wrote enough to judge, and came live. */
  get isLive(): boolean {
    return !this.isBurst && this.#all > this.#tokensMax * bytesPerToken;
  }

  wrote(bytes: number): void {
    this.#fresh += bytes;
  }

  /**
   * Updates the judge after each chunk. Returns true once, when the stream is found to be a burst. `pausedMs`: total
   * reading pause.
   */
  update(now: number, pausedMs: number): boolean {
    if (now - this.#windowAt > atOnceMs) {
      this.#windowAt = now;
      this.#inWindow = 0;
      this.#pausedAtWindow = this.#pausedAtUpdate;
    }
    this.#pausedAtUpdate = pausedMs;
    this.#all += this.#fresh;
    this.#inWindow += this.#fresh;
    this.#fresh = 0;
    const paused = pausedMs - this.#pausedAtWindow;
    const most = this.#tokensMax + (paused / 1000) * pausedTokensPerSecond;
    if (this.isBurst || this.#inWindow <= most * bytesPerToken) return false;
    this.isBurst = true;
    return true;
  }
}
