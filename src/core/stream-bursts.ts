import { reserveTokens, type Slices } from "./slices.ts";

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
