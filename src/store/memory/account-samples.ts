import type { AccountSample } from "../../core/account-sample.ts";
import type { AccountSamples } from "../../ports/account-samples.ts";
import type { MemoryState } from "./state.ts";

export class MemoryAccountSamples implements AccountSamples {
  readonly #state: MemoryState;

  constructor(state: MemoryState) {
    this.#state = state;
  }

  async add(sample: AccountSample): Promise<boolean> {
    if (!this.#state.samples.has(sample.askedAt)) this.#state.samples.set(sample.askedAt, sample);
    return true;
  }

  async list(since: number, until: number): Promise<readonly AccountSample[]> {
    return this.#inOrder().filter(({ askedAt }) => askedAt >= since && askedAt < until);
  }

  async latest(): Promise<AccountSample | undefined> {
    return this.#inOrder().at(-1);
  }

  async remove(askedAts: readonly number[]): Promise<void> {
    for (const askedAt of askedAts) this.#state.samples.delete(askedAt);
  }

  #inOrder(): AccountSample[] {
    return [...this.#state.samples.values()].sort((a, b) => a.askedAt - b.askedAt);
  }
}
