import { dayMs } from "../core/time.ts";
import type { Clock } from "../ports/clock.ts";
import type { Charging } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";

interface LongPromptDeps {
  readonly ledger: Pick<Charging, "firstText">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
  /** Takes over work that continues after the answer, so that a shutdown can wait for it. */
  readonly background: (work: Promise<void>) => void;
}

/** Time for which a mark applies, in milliseconds. */
const markedMs = dayMs;

/**
 * Keys and models whose gateway reported more prompt tokens than the bound by words (`promptBoundByWords`). For a day,
 * their prompts are bounded by bytes in every process, because the words of this key or model have more tokens than the
 * price files state. The ledger keeps the marks as texts, one for each day.
 */
export class LongPrompts {
  readonly #deps: LongPromptDeps;

  constructor(deps: LongPromptDeps) {
    this.#deps = deps;
  }

  /** Returns true if only bytes bound the prompts of a key to a model, or if the marks cannot be read. */
  async isMarked(key: string, model: string): Promise<boolean> {
    const now = this.#deps.clock.now();
    for (const day of [now, now - markedMs]) {
      const mark = await this.#deps.ledger.firstText(nameOf(key, model, day), null, now);
      if (!mark.ok) return true;
      if (mark.text !== null && now - Number(mark.text) < markedMs) return true;
    }
    return false;
  }

  /** Marks a key and a model. `reported`: prompt tokens that the gateway reported; `bound`: their bound by words. */
  record(key: string, model: string, reported: number, bound: number): void {
    this.#deps.background(this.#store(key, model, reported, bound));
  }

  async #store(key: string, model: string, reported: number, bound: number): Promise<void> {
    const now = this.#deps.clock.now();
    await this.#deps.ledger.firstText(nameOf(key, model, now), String(now), now);
    this.#deps.log.warn(
      { model, key, reported_tokens: reported, bound_tokens: bound },
      "a prompt had more tokens than the bound by words; prompts of this key to this model are held by their bytes for a day",
    );
  }
}

function nameOf(key: string, model: string, at: number): string {
  return `long_prompt ${Math.floor(at / dayMs)} ${key} ${model}`;
}
