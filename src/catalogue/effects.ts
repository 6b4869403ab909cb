import type { Block, Decided } from "./read.ts";

/**
 * What a statement about many models changed. A part of a statement that changes no model at any time is a fault,
 * because it may be misspelled, or the shipped model that it changed may be gone.
 */
export class Effect {
  /** Ids of the models that the statement changes. */
  readonly models = new Set<string>();
  readonly #applied = new Set<string>();
  readonly #missed = new Map<
    string,
    { readonly block: Block; readonly message: string; readonly models: Set<string> }
  >();
  readonly #inexact = new Set<string>();
  #reportInexact = () => {};
  /** True if a price of a model that the statement covers was in force at any time of the statement. */
  meetsPrice = false;

  /** Records that a part of the statement applies to a model. */
  apply(part: string, model: string): void {
    this.models.add(model);
    this.#applied.add(part);
  }

  /** Records that a part of the statement does not fit a model. `message` explains the fault if it fits none. */
  miss(part: string, model: string, { block, message }: { readonly block: Block; readonly message: string }): void {
    const missed = this.#missed.get(part) ?? { block, message, models: new Set() };
    missed.models.add(model);
    this.#missed.set(part, missed);
  }

  /** Records that the statement's fraction of an amount of an earlier layer cannot be represented exactly. */
  missExactly({ value, block }: Decided<string>, amount: string, model: string): void {
    if (this.#inexact.size === 0)
      this.#reportInexact = () => {
        const which = this.#inexact.size === 1 ? model : `${this.#inexact.size} models, the first is ${model}`;
        block.report(`${value} of ${amount} cannot be represented exactly (${which}); state a rate or another share`);
      };
    this.#inexact.add(model);
  }

  /**
   * Reports the parts without any effect, and a fraction that is not exact. Of a part and a part within it, only the
   * inner one counts. `isWhole`: returns false for a model of which a fault removed a part; a part that does not fit such
   * a model may be right.
   */
  report(isWhole: (model: string) => boolean): void {
    const counted = [...this.#applied, ...this.#missed.keys()];
    for (const [part, { block, message, models }] of this.#missed) {
      const isInner = !this.#applied.has(part) && !counted.some((other) => other.startsWith(`${part}.`));
      if (isInner && [...models].every(isWhole)) block.report(message);
    }
    this.#reportInexact();
  }

  /** Ids of models that the statement covers and that a part of it does not fit, by part. */
  get misfits(): ReadonlyMap<string, readonly string[]> {
    return new Map([...this.#missed].map(([part, { models }]) => [part, [...models]]));
  }
}
