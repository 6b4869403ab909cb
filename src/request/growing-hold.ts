import type { BodyBytes, Exchange } from "../ports/exchange.ts";
import type { Shortage } from "../core/budget.ts";
import type { Caller } from "../core/scope.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import {
  BurstDetector,
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
import { costOf } from "../core/cost.ts";
import { usagesIn } from "../core/several-usages.ts";
import {
  completionClasses,
  completionTotal,
  noTokens,
  promptTotal,
  scaleTokens,
  type TokenCounts,
  type Usage,
} from "../core/usage.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Charging } from "../ports/ledger.ts";
import type { Events } from "../ports/events.ts";
import type { Log } from "../ports/log.ts";
import type { TokenCounter } from "../ports/token-counter.ts";
import type { Authenticated } from "./authenticate.ts";
import { budgetRefusal, type PendingCharge, type ShortageView } from "./hold.ts";
import type { PricedRequest } from "./output-cap.ts";
import type { StreamMarks } from "./stream-marks.ts";
import type { Growth, Pricer, Quote } from "./price.ts";
import type { OutputListener } from "../wire/stream-output.ts";
import type { StreamWatch, WatchedStream } from "./stream-watch.ts";
import { StreamedText } from "./streamed-text.ts";

/**
 * Longest pause while an extension is pending, in milliseconds. The hold's reserve covers output that the gateway sends
 * during the pause.
 */
export const pauseMsMax = 2_000;
/**
 * Time to read output that has already arrived before Farebox ends a stream, in milliseconds. The gateway bills that
 * output, so Farebox passes it on and counts it.
 */
const drainMs = 10;
/** Longest time until the gateway notices that Farebox ended a stream, in milliseconds. */
const noticeMs = 50;
/** First and longest pause before Farebox tries again to write to the ledger, in milliseconds. */
const retryMs = { first: 50, longest: 1_000 } as const;

interface GrowParams {
  readonly id: string;
  readonly caller: Caller;
  /** Initial hold. */
  readonly hold: PicoUsd;
  readonly growth: Growth;
  readonly quote: Quote & { readonly model: CatalogueModel };
  readonly body: BodyBytes;
  /**
   * Output tokens that the request's stated maximum allows, all covered by the hold. Null if the request states no
   * maximum.
   */
  readonly statedTokens: number | null;
  /** Called once if Farebox ends the stream with a refusal. */
  readonly onRefusal: (refusal: Refusal) => void;
  /**
   * Called for a stream without a stated maximum: as soon as it proves to be a burst, or at the end of a live stream.
   */
  readonly onKind: (kind: StreamKind) => void;
}

export interface GrowDeps extends ShortageView {
  readonly ledger: Pick<Charging, "extend">;
  readonly tokens: TokenCounter;
  readonly pricer: Pricer;
  readonly clock: Clock;
  readonly log: Log;
}

/** Returns the watch for a stream under a hard budget; undefined if watching it would have no effect. */
export function growingHold(
  deps: GrowDeps & { readonly events: Pick<Events, "refused">; readonly streamMarks: Pick<StreamMarks, "record"> },
  { recordAs }: Exchange,
  { charge, who, held }: { readonly charge: PendingCharge; readonly who: Authenticated; readonly held: PricedRequest },
): GrowingHold | undefined {
  const { id, hold, room } = charge;
  const { quote, body } = held;
  const { model, request } = quote;
  if (!request.stream || room === null) return undefined;
  const isStated = request.size.outputMax !== null;
  const isMarked = request.isHeldWhole === true;
  const growth = charge.growth ?? (isStated || isMarked ? growthBeyond(quote, charge) : null);
  if (growth === null || hold === null || model === undefined) return undefined;
  return new GrowingHold(deps, {
    id,
    caller: who.caller,
    hold,
    growth,
    quote: { ...quote, model },
    body,
    statedTokens: isStated ? quote.outputTokens : null,
    onRefusal: (refusal) => deps.events.refused({ refusal, request: recordAs }),
    onKind: (kind) => {
      if (kind === "burst" || isMarked) deps.streamMarks.record(who.caller.key, model.id, kind);
    },
  });
}

/**
 * Returns the rule by which a hold of the whole cost grows if the output exceeds `quote.outputTokens`. Null if Farebox
 * could not see such output.
 */
function growthBeyond({ beyond, outputTokens }: Quote, { hold }: PendingCharge): Growth | null {
  if (beyond === null || outputTokens === null || hold === null) return null;
  // The hold is smaller than the quote's if the prompt was counted to fit the budget.
  const saved = beyond.costAt(outputTokens) - hold;
  return { ...beyond, costAt: (tokens) => (beyond.costAt(tokens) - saved) as PicoUsd };
}

/**
 * Extends the hold of a running stream. Bounds the tokens of the output by its bytes, and counts them if the bound is
 * too high. Requests an extension before it is needed. Pauses reading if an extension is late. Ends the stream if an
 * extension is refused and the hold is used up.
 */
export class GrowingHold implements StreamWatch {
  readonly #deps: GrowDeps;
  readonly #params: GrowParams;
  /** Rule of growth by the prompt's bound or count. */
  #countedGrowth: Growth;
  /** The same rule; raised if the stream states a prompt that costs more. */
  #growth: Growth;
  #hold: PicoUsd;
  /** Tokens of the usage with the largest prompt that the stream stated. */
  #statedPrompt: TokenCounts = noTokens;
  /** Output tokens that the hold covers. */
  #covered: number;
  #stream: WatchedStream | undefined;
  #isReadable = true;
  readonly #streamed: StreamedText;
  /**
   * Estimated number of tokens that the gateway wrote but Farebox did not read, because Farebox ended the stream. 0 for
   * other streams.
   */
  inFlightTokens = 0;
  /** True if the ledger refused the latest extension, and counting the prompt has not made room since. */
  #refused = false;
  #tightened = false;
  /** Counted prompt tokens; undefined if the hold covers the prompt's bound. */
  countedPrompt: number | undefined;
  #pauseTimer: Timer | undefined;
  #retryMs: number = retryMs.first;
  #wake: (() => void) | undefined;
  #state: "growing" | "ending" | "over" = "growing";
  readonly #burstDetector: BurstDetector;
  /**
   * Number of tokens by which a count may exceed a stated maximum before Farebox assumes that the gateway ignores the
   * maximum.
   */
  readonly #slack: number;
  #isWorking = false;
  #work: Promise<void> = Promise.resolve();

  constructor(deps: GrowDeps, params: GrowParams) {
    this.#deps = deps;
    this.#params = params;
    this.#growth = this.#countedGrowth = params.growth;
    this.#hold = params.hold;
    this.#covered = this.#coverage();
    const { statedTokens, quote } = params;
    const { errorFactor } = quote.model;
    this.#streamed = new StreamedText(deps, quote.model);
    this.#burstDetector = new BurstDetector(params.growth);
    this.#slack = statedTokens === null ? 0 : statedSlack(statedTokens, errorFactor);
    // Prepares the tokenizer now, because the first count of a process would take longer than the stream may pause.
    if (statedTokens === null) deps.tokens.prepare(quote.model.encoding);
  }

  begin(stream: WatchedStream): void {
    this.#stream = stream;
  }

  cannotRead(): void {
    // Farebox cannot check the output, so it assumes that the gateway obeys a stated maximum.
    if (this.#isStated) return this.end();
    this.#isReadable = false;
    this.#pause();
    this.#start();
  }

  whole(bytes: number): void {
    if (this.#isStated) return this.end();
    this.output.inFlight(bytes);
    this.onChunk();
  }

  readonly output: OutputListener = {
    text: (text, choice) => {
      this.#burstDetector.wrote(Buffer.byteLength(text));
      if (this.#canOutgrowHold()) this.#streamed.add(text, choice);
    },
    unknown: (bytes) => {
      this.#burstDetector.wrote(bytes);
      if (this.#canOutgrowHold()) this.#streamed.addUnknown(bytes);
    },
    inFlight: (bytes) => {
      if (this.#canOutgrowHold()) this.#streamed.inFlight(bytes);
    },
    usage: (usage) => {
      if (this.#canOutgrowHold()) this.#addUsage(usage);
    },
    media: () => {
      // Text does not bound the cost of an image or a sound, so the worst case is held before the stream continues.
      if (this.#isStated || !this.#canOutgrowHold() || !this.#isReadable) return;
      this.#isReadable = false;
      if (this.#state !== "growing") return;
      this.#pause();
      if (!this.#isWorking) this.#start();
    },
  };

  /**
   * Records a usage that the stream states before its end. It may exceed the counted output, and the prompt's bound.
   */
  #addUsage(usage: Usage): void {
    const [stated] = usagesIn("token", usage, this.#params.quote.request.classes.prompt);
    if (stated === undefined) return;
    this.#streamed.setStated(completionTotal(stated.tokens));
    if (promptTotal(stated.tokens) <= promptTotal(this.#statedPrompt)) return;
    this.#statedPrompt = stated.tokens;
    this.#growth = this.#withStatedPrompt(this.#countedGrowth);
    this.#covered = this.#coverage();
  }

  /** Returns a rule of growth by which the hold also covers a stated prompt that costs more than its bound. */
  #withStatedPrompt(growth: Growth): Growth {
    const price = this.#params.quote.model.price?.version;
    if (price === undefined || promptTotal(this.#statedPrompt) === 0) return growth;
    const prompt = { ...this.#statedPrompt };
    for (const name of completionClasses) prompt[name] = 0;
    const excess = [0, growth.outputTokensMax]
      .map((output) => costOf(price, { ...prompt, output }).charged - growth.costAt(output))
      .reduce((most, each) => (each > most ? each : most), 0n);
    return excess === 0n ? growth : { ...growth, costAt: (tokens) => (growth.costAt(tokens) + excess) as PicoUsd };
  }

  /** Returns true if the output can still outgrow the hold. */
  #canOutgrowHold(): boolean {
    return this.#state !== "over" && !isWorstCase({ covered: this.#covered + this.#slack }, this.#growth);
  }

  mustRead(unreadBytes: number, isLast: boolean): boolean {
    if (this.#state === "over") return false;
    // The pace of a stream without a stated maximum shows whether its model sends bursts.
    if (!this.#isStated) return true;
    // The settlement that follows replaces the hold.
    if (isLast) return false;
    const progress = this.#progress();
    const unread = scaleTokens(unreadBytes, this.#params.quote.model.tokensPerByte);
    return exceedsStated({ ...progress, uncounted: progress.uncounted + unread }, this.#growth);
  }

  onChunk(): void {
    if (this.#state === "over") return;
    const { clock } = this.#deps;
    const pausedMs = this.#stream?.pausedMs() ?? 0;
    if (!this.#isStated && this.#burstDetector.update(clock.monotonic(), pausedMs)) this.#params.onKind("burst");
    if (this.#state !== "growing") return;
    const progress = this.#progress();
    const mustStop = this.#isStated ? exceedsStated(progress, this.#growth) : mustPause(progress, this.#growth);
    if (mustStop) this.#pause();
    if (!this.#isWorking && this.#step(progress) !== "wait") this.#start();
  }

  end(): void {
    if (this.#state !== "over" && !this.#isStated && this.#burstDetector.isLive) this.#params.onKind("live");
    this.#state = "over";
    this.#pauseTimer?.cancel();
    this.#wake?.();
  }

  /** Waits for an extension in progress, and returns the held amount. Called after the end of the stream. */
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

  /** Counts output and extends the hold until the stream needs neither. */
  async #grow(): Promise<void> {
    while (this.#state === "growing") {
      const step = this.#step();
      if (step === "wait") {
        this.#isWorking = false;
        this.#resume();
        return;
      }
      await (step === "count" ? this.#streamed.count() : this.#extend());
    }
  }

  #step(progress = this.#progress()): Step {
    if (this.#isStated) return stepBeyondStated(progress, this.#growth);
    if (this.#isReadable || isWorstCase(progress, this.#growth)) return nextStep(progress, this.#growth);
    return "extend";
  }

  async #extend(): Promise<void> {
    const outputTokensMax = this.#growth.outputTokensMax;
    const { wanted, least } = this.#isReadable
      ? nextCover(this.#progress(), this.#growth)
      : { wanted: outputTokensMax, least: outputTokensMax };
    const result = await this.#deps.ledger.extend(
      this.#params.id,
      this.#lacking(wanted),
      this.#lacking(least),
      this.#deps.clock.now(),
    );
    if (result.ok) {
      this.#hold = (this.#hold + result.granted) as PicoUsd;
      this.#covered = this.#coverage();
      this.#refused = false;
      this.#retryMs = retryMs.first;
      return;
    }
    switch (result.reason) {
      case "no_room":
        return this.#onShortage(result.shortage);
      case "unavailable":
        await this.#sleep(this.#retryMs);
        this.#retryMs = Math.min(this.#retryMs * 2, retryMs.longest);
        return;
      case "not_pending":
        // Other code has settled the charge, so nothing more can be held for this stream.
        return this.#stop({ code: "ledger_unavailable", running: true });
    }
  }

  /**
   * Handles a refused extension. Counts the prompt, because a count below the prompt's bound leaves more of the hold
   * for output. If that does not help, the stream continues until only the reserve is left. If the next extension is
   * refused too, Farebox ends the stream.
   */
  async #onShortage(shortage: Shortage): Promise<void> {
    const isLast = this.#refused || !this.#isReadable;
    this.#refused = true;
    if (await this.#tighten()) return;
    if (!isLast) return;
    const refusal = await budgetRefusal(this.#deps, shortage, this.#params.caller);
    await this.#stop({ code: "budget_exceeded", ...refusal, running: true });
  }

  /**
   * Counts the prompt once. The difference between the prompt's bound and its count pays for more output. Returns true
   * if the hold now covers more output.
   */
  async #tighten(): Promise<boolean> {
    if (this.#tightened) return false;
    this.#tightened = true;
    const tighter = await this.#deps.pricer.tighten(
      this.#params.quote,
      this.#params.body,
      this.#hold,
      this.#params.caller.key,
    );
    if (tighter?.growth == null) return false;
    this.countedPrompt = tighter.promptTokens;
    const coveredBefore = this.#covered;
    this.#countedGrowth = tighter.growth;
    this.#growth = this.#withStatedPrompt(tighter.growth);
    this.#covered = Math.max(coveredBefore, this.#coverage());
    this.#refused &&= this.#covered === coveredBefore;
    return this.#covered > coveredBefore;
  }

  /** Ends the stream after reading the bytes that have already arrived. */
  async #stop(refusal: Refusal): Promise<void> {
    if (this.#state !== "growing") return;
    this.#state = "ending";
    this.#wake?.();
    this.#resume();
    await this.#sleep(drainMs);
    if (this.#state !== "ending") return;
    this.inFlightTokens = this.#inFlight();
    if (this.#stream === undefined) return;
    this.#params.onRefusal(refusal);
    this.#stream.stop(refusal.code, refusal);
  }

  #inFlight(): number {
    const { silentMs, writingPace: soFar } = this.#streamed;
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

  /** Waits for `ms` milliseconds, or until the stream ends. */
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
    const { counted, uncounted } = this.#streamed;
    return { covered: this.#covered + this.#slack, counted, uncounted, refused: this.#refused };
  }

  get #isStated(): boolean {
    return this.#params.statedTokens !== null;
  }

  #coverage(): number {
    return tokensCovered(this.#hold, this.#growth.costAt, this.#growth.outputTokensMax);
  }

  /** Returns the amount by which the hold is too small to cover `tokens`; 0 if it covers them. */
  #lacking(tokens: number): PicoUsd {
    const lacking = this.#growth.costAt(tokens) - this.#hold;
    return (lacking > 0n ? lacking : 0n) as PicoUsd;
  }
}
