import { expect } from "vitest";
import type { Charge } from "../../src/core/charge.ts";
import type { BilledCall } from "../../src/sandbox/billing.ts";
import type { RunningProxy } from "./running-proxy.ts";

/**
 * Returns the new charges of a proxy and the calls that its gateway newly billed. Never returns a charge or call twice,
 * so that several tests can share a proxy.
 */
export class NewCharges {
  readonly #proxy: RunningProxy;
  #charges = 0;
  #billed = 0;

  constructor(proxy: RunningProxy) {
    this.#proxy = proxy;
  }

  /**
   * Returns the only new charge, after checking that it has settled, that nothing is held, and that the ledger
   * verifies.
   */
  async settled(): Promise<Charge> {
    const all = await this.allSettled();
    const [charge] = all;
    if (charge === undefined || all.length !== 1) throw new Error(`expected one charge, found ${all.length}`);
    return charge;
  }

  /** Returns all new charges, after the same checks as `settled`. */
  async allSettled(): Promise<Charge[]> {
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

  /** Returns the calls that the gateway billed and that no method has returned yet. */
  billed(): readonly BilledCall[] {
    const found = this.#proxy.sandbox.ledger.slice(this.#billed);
    this.#billed = this.#proxy.sandbox.ledger.length;
    return found;
  }

  /**
   * Returns the new charge and the gateway's bill for the same request, after checking that the charge is not below
   * it.
   */
  async settledAndBilled(): Promise<{ readonly charge: Charge; readonly billed: BilledCall | undefined }> {
    const charge = await this.settled();
    const [billed, ...more] = this.billed();
    expect(more).toEqual([]);
    if (billed !== undefined) expect(charge.cost).toBeGreaterThanOrEqual(billed.cost);
    return { charge, billed };
  }
}

/** Returns a chat request for a real model. Its message, not the model's name, states a scenario of the sandbox. */
export function chatWith(scenario: string, more: object = {}): object {
  return { model: "gpt-4o", messages: [{ role: "user", content: `Say hello. #sandbox ${scenario}` }], ...more };
}
