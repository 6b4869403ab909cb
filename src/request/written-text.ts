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
  #firstAt: number | undefined;
  #lastAt = 0;

  constructor(deps: { readonly tokens: TokenCounter; readonly clock: Clock }, model: CatalogueModel) {
    this.#tokens = deps.tokens;
    this.#clock = deps.clock;
    this.#model = model;
  }

  add(text: string, choice: number): void {
    this.#note();
    this.#bytes += Buffer.byteLength(text);
    const pieces = this.#pieces.get(choice);
    if (pieces === undefined) this.#pieces.set(choice, [text]);
    else pieces.push(text);
  }

  addUnknown(bytes: number): void {
    this.#note();
    this.#unknownBytes += bytes;
  }

  inFlight(bytes: number): void {
    if (bytes > this.#partialBytes) this.#note();
    this.#partialBytes = bytes;
  }

  /**
   * Tokens that another count cannot reduce: counted tokens, scaled up if the tokenizer is not the model's own, and a
   * bound for bytes that cannot be counted.
   */
  get counted(): number {
    return this.#counted + scaleTokens(this.#unknownBytes + this.#partialBytes, this.#model.tokensPerByte);
  }

  /** Largest number of tokens in the output since the last count. */
  get uncounted(): number {
    return scaleTokens(this.#bytes, this.#model.tokensPerByte);
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
