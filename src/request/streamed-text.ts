import { scaleTokens } from "../core/usage.ts";
import type { WritingPace } from "../core/slices.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { TokenCounter } from "../ports/token-counter.ts";

/**
 * Measures the output of a running stream in tokens. The bytes of the output bound its tokens at once. `count` replaces
 * the bound with a count.
 */
export class StreamedText {
  readonly #tokens: TokenCounter;
  readonly #clock: Clock;
  readonly #model: CatalogueModel;
  /** Text before the stated tokens that is not counted yet; all such text if the stream stated none. */
  readonly #earlier = new UncountedText();
  #counted = 0;
  /** Bytes that no tokenizer counts. */
  #unknownBytes = 0;
  /** Bytes of an event that is not complete yet. */
  #partialBytes = 0;
  /** Tokens that the stream stated last; 0 if it stated none. */
  #stated = 0;
  /** Output since the stream stated these tokens: counted, not counted yet, and of unknown meaning. */
  #laterCounted = 0;
  #later = new UncountedText();
  #laterUnknownBytes = 0;
  #firstAt: number | undefined;
  #lastAt = 0;

  constructor(deps: { readonly tokens: TokenCounter; readonly clock: Clock }, model: CatalogueModel) {
    this.#tokens = deps.tokens;
    this.#clock = deps.clock;
    this.#model = model;
  }

  add(text: string, choice: number): void {
    this.#recordTime();
    (this.#stated === 0 ? this.#earlier : this.#later).add(text, choice);
  }

  addUnknown(bytes: number): void {
    this.#recordTime();
    this.#unknownBytes += bytes;
    this.#laterUnknownBytes += bytes;
  }

  /** Records that the gateway states this number of tokens for the output so far. */
  setStated(tokens: number): void {
    this.#stated = tokens;
    this.#earlier.addAll(this.#later);
    this.#later = new UncountedText();
    this.#laterCounted = 0;
    this.#laterUnknownBytes = 0;
  }

  inFlight(bytes: number): void {
    if (bytes > this.#partialBytes) this.#recordTime();
    this.#partialBytes = bytes;
  }

  /**
   * Tokens that another count cannot reduce: counted tokens, scaled up if the tokenizer is not the model's own, and a
   * bound for bytes that cannot be counted. At least the stated tokens, with a bound for the output after them.
   */
  get counted(): number {
    return Math.max(this.#countedOfAll, this.#countedSinceStated);
  }

  /** Largest number of tokens in the output since the last count. */
  get uncounted(): number {
    const later = this.#bound(this.#later.bytes);
    const all = this.#countedOfAll + this.#bound(this.#earlier.bytes) + later;
    return Math.max(all, this.#countedSinceStated + later) - this.counted;
  }

  get #countedOfAll(): number {
    return this.#counted + this.#bound(this.#unknownBytes + this.#partialBytes);
  }

  get #countedSinceStated(): number {
    if (this.#stated === 0) return 0;
    return this.#stated + this.#laterCounted + this.#bound(this.#laterUnknownBytes + this.#partialBytes);
  }

  #bound(bytes: number): number {
    return scaleTokens(bytes, this.#model.tokensPerByte);
  }

  /** Counts the text that was added before this call. If the counter is busy, uses the bound by bytes instead. */
  async count(): Promise<void> {
    const later = this.#later;
    const [earlierTokens, laterTokens] = await Promise.all([this.#countText(this.#earlier), this.#countText(later)]);
    this.#counted += earlierTokens + laterTokens;
    if (later === this.#later) this.#laterCounted += laterTokens;
  }

  async #countText(uncounted: UncountedText): Promise<number> {
    const { encoding, errorFactor } = this.#model;
    const { bytes } = uncounted;
    const texts = uncounted.takeTexts();
    const counts = await Promise.all(texts.map((text) => this.#tokens.countText(text, encoding)));
    const atMost = this.#bound(bytes);
    const counted = counts.reduce((sum, count) => sum + (count.ok ? count.tokens : atMost), 0);
    uncounted.bytes -= bytes;
    return Math.min(scaleTokens(counted, errorFactor), atMost);
  }

  get writingPace(): WritingPace {
    return {
      tokens: this.counted + this.uncounted,
      tookMs: this.#firstAt === undefined ? 0 : this.#lastAt - this.#firstAt,
    };
  }

  #recordTime(): void {
    this.#lastAt = this.#clock.monotonic();
    this.#firstAt ??= this.#lastAt;
  }

  /** Milliseconds since the last output; null before the first output. */
  get silentMs(): number | null {
    return this.#firstAt === undefined ? null : this.#clock.monotonic() - this.#lastAt;
  }
}

/** Text that is not counted yet. */
class UncountedText {
  /** Pieces of text by choice. They are joined before they are counted, because tokens can span pieces. */
  readonly #pieces = new Map<number, string[]>();
  /** Bytes of the text until it is counted. */
  bytes = 0;

  add(text: string, choice: number): void {
    this.bytes += Buffer.byteLength(text);
    const pieces = this.#pieces.get(choice);
    if (pieces === undefined) this.#pieces.set(choice, [text]);
    else pieces.push(text);
  }

  /** Adds the text of another one. */
  addAll(other: UncountedText): void {
    for (const [choice, pieces] of other.#pieces) this.add(pieces.join(""), choice);
  }

  /** Returns the text of each choice, to be counted. */
  takeTexts(): readonly string[] {
    const texts = [...this.#pieces.values()].map((pieces) => pieces.join(""));
    this.#pieces.clear();
    return texts;
  }
}
