import { scaleTokens } from "../core/usage.ts";
import type { WritingPace } from "../core/slices.ts";
import type { CatalogueModel } from "../ports/catalogue.ts";
import type { Clock } from "../ports/clock.ts";
import type { TokenCounter } from "../ports/token-counter.ts";

/** Output of a running stream, in tokens: bounded by its bytes at once; text is counted on request. */
export class WrittenText {
  readonly #tokens: TokenCounter;
  readonly #clock: Clock;
  readonly #model: CatalogueModel;
  /** By choice: tokens are counted on joined texts. */
  readonly #pieces = new Map<number, string[]>();
  #bytes = 0;
  #counted = 0;
  /** Bytes that no tokenizer counts, and those of an unfinished event. */
  #unknownBytes = 0;
  #underWayBytes = 0;
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
    if (bytes > this.#underWayBytes) this.#note();
    this.#underWayBytes = bytes;
  }

  /** Tokens that no further count reduces: by the tokenizer, scaled up where it is not the model's own, else by bytes. */
  get counted(): number {
    return this.#counted + scaleTokens(this.#unknownBytes + this.#underWayBytes, this.#model.tokensPerByte);
  }

  /** Most tokens that the output since the last count can be. */
  get uncounted(): number {
    return scaleTokens(this.#bytes, this.#model.tokensPerByte);
  }

  /** Counts what was added before this call. If the counter is busy, the bound by bytes remains. */
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

  /** Milliseconds since the last output; null before the first. */
  get silentMs(): number | null {
    return this.#firstAt === undefined ? null : this.#clock.monotonic() - this.#lastAt;
  }
}
