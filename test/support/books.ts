import { expect } from "vitest";
import type { Charge } from "../../src/core/charge.ts";
import type { BilledCall } from "../../src/sandbox/options.ts";
import type { RunningProxy } from "./running-proxy.ts";

/** Both sides' books of one proxy over several tests: each reading gives what came since the last. */
export class Books {
  readonly #proxy: RunningProxy;
  #charges = 0;
  #billed = 0;

  constructor(proxy: RunningProxy) {
    this.#proxy = proxy;
  }

  /** The only charge since the last reading. It has ended, nothing is held any more, and the ledger agrees with itself. */
  async ended(): Promise<Charge> {
    const all = await this.endings();
    const [charge] = all;
    if (charge === undefined || all.length !== 1) throw new Error(`expected one charge, found ${all.length}`);
    return charge;
  }

  async endings(): Promise<Charge[]> {
    const all = await this.#proxy.charges();
    const found = all.slice(this.#charges);
    this.#charges = all.length;
    const { ledger } = this.#proxy.serving;
    expect(found.filter(({ state, endedAt }) => state === "pending" || endedAt === null)).toEqual([]);
    expect(await ledger.pending()).toMatchObject({ count: 0 });
    const windows = await ledger.windows(Date.now());
    expect(windows.map(({ held }) => held)).toEqual(windows.map(() => 0n));
    expect(await ledger.verify()).toMatchObject({ differences: [] });
    return found;
  }

  /** Returns the gateway's billed calls since the last call. */
  billed(): readonly BilledCall[] {
    const found = this.#proxy.sandbox.ledger.slice(this.#billed);
    this.#billed = this.#proxy.sandbox.ledger.length;
    return found;
  }

  /** The charge, with the gateway's bill for the same request: never below it. */
  async endedBeside(): Promise<{ readonly charge: Charge; readonly billed: BilledCall | undefined }> {
    const charge = await this.ended();
    const [billed, ...more] = this.billed();
    expect(more).toEqual([]);
    if (billed !== undefined) expect(charge.cost).toBeGreaterThanOrEqual(billed.cost);
    return { charge, billed };
  }
}

/** A chat request whose last message asks the sandbox for a scenario, so that the model's name stays a real one. */
export function chatWith(scenario: string, more: object = {}): object {
  return { model: "gpt-4o", messages: [{ role: "user", content: `Say hello. #sandbox ${scenario}` }], ...more };
}
