import type { Shortage } from "../core/budget.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import {
  BurstJudge,
  exceedsStated,
  isWorstCase,
  mustPause,
  nextCover,
  nextStep,
  statedSlack,
  stepBeyondStated,
  tokensCovered,
  tokensInFlight,
  type HoldProgress,
  type Step,
  type StreamKind,
} from "../core/slices.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Charging } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import type { Growth, Pricer, Quote } from "./price.ts";
import type { OutputListener } from "../wire/stream-output.ts";
import type { StreamWatch, WatchedStream } from "./stream-watch.ts";
import { WrittenText } from "./written-text.ts";

/** Longest pause while an extension is pending, in milliseconds. The reserve covers output that the gateway sends meanwhile. */
export const pauseMsMax = 2_000;
/** Time to read output that arrived before a stream is ended, in milliseconds. It is billed, so it is passed on and counted. */
const drainMs = 10;
/** Longest time until the gateway notices a stream's end, in milliseconds. */
const noticeMs = 50;
/** First and longest pause before another try if the ledger could not be written, in milliseconds. */
const retryMs = { first: 50, longest: 1_000 } as const;

interface GrowParams {
  readonly id: string;
  /** Initial hold. */
  readonly hold: PicoUsd;
  readonly growth: Growth;
  readonly quote: Quote & { readonly model: CatalogueModel };
  readonly body: Buffer;
  /** Output tokens of the maximum that the request states. The hold covers them. Null if the request states none. */
  readonly statedTokens: number | null;
  /** Receives the kind of a stream without a stated maximum, once. A burst is reported early, a live stream at its end. */
  readonly saw: (kind: StreamKind) => void;
}

export interface GrowDeps {
  readonly ledger: Pick<Charging, "extend">;
  readonly tokens: TokenCounter;
  readonly pricer: Pricer;
  readonly clock: Clock;
  readonly log: Log;
  readonly scopeName: (shortage: Shortage) => Promise<string>;
  readonly events: Pick<Events, "refused">;
}

/**
 * Extends the hold of a stream while it runs. The output is bounded by its bytes, and counted if that is not enough.
 * Extensions are requested before they are needed. If one is late, reading pauses. If it is refused and the hold is used
 * up, the stream ends.
 */
export class GrowingHold implements StreamWatch {
  readonly #deps: GrowDeps;
  readonly #params: GrowParams;
  #growth: Growth;
  #hold: PicoUsd;
  #covered: number;
  #stream: WatchedStream | undefined;
  #isReadable = true;
  readonly #written: WrittenText;
  /** Tokens that the gateway wrote but Farebox did not read, because the stream was ended for its hold; 0 if it was not. */
  inFlightTokens = 0;
  #refused = false;
  #tightened = false;
  #pauseTimer: Timer | undefined;
  #retryMs: number = retryMs.first;
  #wake: (() => void) | undefined;
  #state: "growing" | "ending" | "over" = "growing";
  readonly #judge: BurstJudge;
  /** Tokens by which a count may exceed a stated maximum before the gateway is assumed to ignore the maximum. */
  readonly #slack: number;
  readonly unreadBytes: number;
  #isWorking = false;
  #work: Promise<void> = Promise.resolve();

  constructor(deps: GrowDeps, params: GrowParams) {
    this.#deps = deps;
    this.#params = params;
    this.#growth = params.growth;
    this.#hold = params.hold;
    this.#covered = this.#coverage();
    const { statedTokens, quote } = params;
    const { errorFactor, tokensPerByte } = quote.model;
    this.#written = new WrittenText(deps, quote.model);
    this.#judge = new BurstJudge(params.growth);
    this.#slack = statedTokens === null ? 0 : statedSlack(statedTokens, errorFactor);
    this.unreadBytes = statedTokens === null ? 0 : Math.floor((statedTokens * 1000) / tokensPerByte);
  }

  begin(stream: WatchedStream): void {
    this.#stream = stream;
  }

  cannotRead(): void {
    // If the output cannot be read, the gateway is assumed to obey a stated maximum.
    if (this.#isStated) return this.end();
    this.#isReadable = false;
    this.#pause();
    this.#start();
  }

  readonly output: OutputListener = {
    text: (text, choice) => {
      this.#judge.wrote(Buffer.byteLength(text));
      if (this.#counts()) this.#written.add(text, choice);
    },
    unknown: (bytes) => {
      this.#judge.wrote(bytes);
      if (this.#counts()) this.#written.addUnknown(bytes);
    },
    inFlight: (bytes) => {
      if (this.#counts()) this.#written.inFlight(bytes);
    },
    media: () => {
      // Text does not bound an image or a sound. As for an unreadable stream, the worst case is held before it continues.
      if (this.#isStated || !this.#counts() || !this.#isReadable) return;
      this.#isReadable = false;
      if (this.#state !== "growing") return;
      this.#pause();
      if (!this.#isWorking) this.#start();
    },
  };

  /** Returns true if the output can still outgrow the hold. */
  #counts(): boolean {
    return this.#state !== "over" && !isWorstCase(this.#progress(), this.#growth);
  }

  onChunk(): void {
    if (this.#state === "over") return;
    const { clock } = this.#deps;
    const pausedMs = this.#stream?.pausedMs() ?? 0;
    if (!this.#isStated && this.#judge.update(clock.monotonic(), pausedMs)) this.#params.saw("burst");
    if (this.#state !== "growing") return;
    const progress = this.#progress();
    const mustStop = this.#isStated ? exceedsStated(progress, this.#growth) : mustPause(progress, this.#growth);
    if (mustStop) this.#pause();
    if (!this.#isWorking && this.#step() !== "wait") this.#start();
  }

  end(): void {
    if (this.#state !== "over" && !this.#isStated && this.#judge.isLive) this.#params.saw("live");
    this.#state = "over";
    this.#pauseTimer?.cancel();
    this.#wake?.();
  }

  /** Returns the amount held once no extension is in progress. Callers use it after the end. */
  async settled(): Promise<PicoUsd> {
    await this.#work;
    return this.#hold;
  }

  #start(): void {
    this.#isWorking = true;
    this.#work = this.#grow().catch((error: unknown) => {
      this.#deps.log.error({ request_id: this.#params.id, err: error }, "a hold could not be extended");
      return this.#stop({ code: "ledger_unavailable", running: true });
    });
  }

  /** Takes steps until none is needed. */
  async #grow(): Promise<void> {
    while (this.#state === "growing") {
      const step = this.#step();
      if (step === "wait") {
        this.#isWorking = false;
        this.#resume();
        return;
      }
      await (step === "count" ? this.#written.count() : this.#extend());
    }
  }

  #step(): Step {
    const progress = this.#progress();
    if (this.#isStated) return stepBeyondStated(progress, this.#growth);
    if (this.#isReadable || isWorstCase(progress, this.#growth)) return nextStep(progress, this.#growth);
    return "extend";
  }

  async #extend(): Promise<void> {
    const all = this.#growth.outputTokensMax;
    const { wanted, least } = this.#isReadable
      ? nextCover(this.#progress(), this.#growth)
      : { wanted: all, least: all };
    const result = await this.#deps.ledger.extend(this.#params.id, this.#lacking(wanted), this.#lacking(least));
    if (result.ok) {
      this.#hold = (this.#hold + result.granted) as PicoUsd;
      this.#covered = this.#coverage();
      this.#refused = false;
      this.#retryMs = retryMs.first;
      return;
    }
    switch (result.reason) {
      case "no_room":
        return this.#noRoom(result.shortage);
      case "unavailable":
        await this.#sleep(this.#retryMs);
        this.#retryMs = Math.min(this.#retryMs * 2, retryMs.longest);
        return;
      case "not_pending":
        // Other code has settled the charge, so nothing more can be held for this stream.
        return this.#stop({ code: "ledger_unavailable", running: true });
    }
  }

  /** Counts the prompt to free room in the hold. If that fails, the stream uses up the hold and is then ended. */
  async #noRoom(shortage: Shortage): Promise<void> {
    const isLast = this.#refused || !this.#isReadable;
    this.#refused = true;
    if (await this.#tighten()) return;
    if (!isLast) return;
    const scopeName = await this.#deps.scopeName(shortage);
    await this.#stop({ code: "budget_exceeded", shortage, scopeName, running: true });
  }

  /** Counts the prompt once. The difference to its bound covers output. Returns false if that adds nothing. */
  async #tighten(): Promise<boolean> {
    if (this.#tightened) return false;
    this.#tightened = true;
    const tighter = await this.#deps.pricer.tighten(this.#params.quote, this.#params.body, this.#hold);
    if (tighter?.growth == null) return false;
    const before = this.#covered;
    this.#growth = tighter.growth;
    this.#covered = Math.max(before, this.#coverage());
    this.#refused &&= this.#covered === before;
    return this.#covered > before;
  }

  /** Ends the stream after the bytes that have arrived are read. */
  async #stop(refusal: Refusal): Promise<void> {
    if (this.#state !== "growing") return;
    this.#state = "ending";
    this.#wake?.();
    this.#resume();
    await this.#sleep(drainMs);
    if (this.#state !== "ending") return;
    this.inFlightTokens = this.#inFlight();
    if (this.#stream === undefined) return;
    this.#deps.events.refused(refusal);
    this.#stream.stop(refusal.code, refusal);
  }

  #inFlight(): number {
    const { silentMs, soFar } = this.#written;
    return silentMs === null ? 0 : tokensInFlight(soFar, silentMs + noticeMs, this.#growth);
  }

  #pause(): void {
    if (this.#pauseTimer !== undefined) return;
    this.#stream?.pace.pause();
    this.#pauseTimer = this.#deps.clock.after(
      pauseMsMax,
      () => void this.#stop({ code: "ledger_unavailable", running: true }),
    );
  }

  #resume(): void {
    this.#pauseTimer?.cancel();
    this.#pauseTimer = undefined;
    this.#stream?.pace.resume();
  }

  /** Waits for a time. Ends early if the stream ends. */
  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#deps.clock.after(ms, resolve);
      this.#wake = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  #progress(): HoldProgress {
    const { counted, uncounted } = this.#written;
    return { covered: this.#covered + this.#slack, counted, uncounted, refused: this.#refused };
  }

  get #isStated(): boolean {
    return this.#params.statedTokens !== null;
  }

  #coverage(): number {
    return tokensCovered(this.#hold, this.#growth.costAt, this.#growth.outputTokensMax);
  }

  /** Returns the amount that the hold lacks to cover `tokens`. */
  #lacking(tokens: number): PicoUsd {
    const lacking = this.#growth.costAt(tokens) - this.#hold;
    return (lacking > 0n ? lacking : 0n) as PicoUsd;
  }
}
