import { scaleTokens } from "../core/usage.ts";
import type { WritingPace } from "../core/slices.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { TokenCounter } from "../ports/token-counter.ts";

/**
 * Measures the output of a running stream in tokens. The bytes of the output bound its tokens at once. `count` replaces
 * the bound with a count.
 */
export class WrittenText {
  readonly #tokens: TokenCounter;
  readonly #clock: Clock;
  readonly #model: CatalogueModel;
  /** Pieces of text by choice. They are joined before they are counted, because tokens can span pieces. */
  readonly #pieces = new Map<number, string[]>();
  #bytes = 0;
  #counted = 0;
  /** Bytes that no tokenizer counts. */
  #unknownBytes = 0;
  /** Bytes of an event that is not complete yet. */
  #partialBytes = 0;
  /** Tokens that the stream stated last, and the bytes since then. */
  #statedTokens = 0;
  #laterBytes = 0;
  #firstAt: number | undefined;
  #lastAt = 0;

  constructor(deps: { readonly tokens: TokenCounter; readonly clock: Clock }, model: CatalogueModel) {
    this.#tokens = deps.tokens;
    this.#clock = deps.clock;
    this.#model = model;
  }

  add(text: string, choice: number): void {
    this.#note();
    const bytes = Buffer.byteLength(text);
    this.#bytes += bytes;
    this.#laterBytes += bytes;
    const pieces = this.#pieces.get(choice);
    if (pieces === undefined) this.#pieces.set(choice, [text]);
    else pieces.push(text);
  }

  addUnknown(bytes: number): void {
    this.#note();
    this.#unknownBytes += bytes;
    this.#laterBytes += bytes;
  }

  /** Records that the gateway states this number of tokens for the output so far. */
  covers(tokens: number): void {
    this.#statedTokens = tokens;
    this.#laterBytes = 0;
  }

  inFlight(bytes: number): void {
    if (bytes > this.#partialBytes) this.#note();
    this.#partialBytes = bytes;
  }

  /**
   * Tokens that another count cannot reduce: counted tokens, scaled up if the tokenizer is not the model's own, and a
   * bound for bytes that cannot be counted. At least the stated tokens, with a bound for the output after them.
   */
  get counted(): number {
    const { tokensPerByte } = this.#model;
    const stated = this.#statedTokens + scaleTokens(this.#laterBytes + this.#partialBytes, tokensPerByte);
    return Math.max(this.#countedTokens, this.#statedTokens === 0 ? 0 : stated);
  }

  /** Largest number of tokens in the output since the last count. */
  get uncounted(): number {
    const all = this.#countedTokens + scaleTokens(this.#bytes, this.#model.tokensPerByte);
    return Math.max(0, all - this.counted);
  }

  get #countedTokens(): number {
    return this.#counted + scaleTokens(this.#unknownBytes + this.#partialBytes, this.#model.tokensPerByte);
  }

  /** Counts the text that was added before this call. If the counter is busy, uses the bound by bytes instead. */
  async count(): Promise<void> {
    const { encoding, errorFactor, tokensPerByte } = this.#model;
    const texts = [...this.#pieces.values()].map((pieces) => pieces.join(""));
    const bytes = this.#bytes;
    this.#pieces.clear();
    const counts = await Promise.all(texts.map((text) => this.#tokens.countText(text, encoding)));
    const atMost = scaleTokens(bytes, tokensPerByte);
    const counted = counts.reduce((sum, count) => sum + (count.ok ? count.tokens : atMost), 0);
    this.#counted += Math.min(scaleTokens(counted, errorFactor), atMost);
    this.#bytes -= bytes;
  }

  get soFar(): WritingPace {
    return {
      tokens: this.counted + this.uncounted,
      tookMs: this.#firstAt === undefined ? 0 : this.#lastAt - this.#firstAt,
    };
  }

  #note(): void {
    this.#lastAt = this.#clock.monotonic();
    this.#firstAt ??= this.#lastAt;
  }

  /** Milliseconds since the last output; null before the first output. */
  get silentMs(): number | null {
    return this.#firstAt === undefined ? null : this.#clock.monotonic() - this.#lastAt;
  }
}
