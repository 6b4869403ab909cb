import type { PicoUsd } from "../core/money.ts";
import { misbilled, type BillingError } from "./billing-errors.ts";
import { listPrices, type ModelPrice } from "./prices.ts";
import { picoUsd, Purse } from "./purse.ts";

/** Billed quantities of one call. */
export interface Consumption {
  readonly requestId: string;
  readonly completionId: string;
  /** Unix time in milliseconds. */
  readonly at: number;
  /** Requested model, without the name of a scenario. */
  readonly model: string;
  readonly scenario: string;
  readonly stream: boolean;
  readonly promptTokens: number;
  /** Number of cached tokens, included in promptTokens. */
  readonly cachedTokens: number;
  /** Number of tokens of images or audio, included in promptTokens. They have their own price. */
  readonly partTokens?: number;
  /** Consumption of a task, in ten-millionths of a US dollar. A task has no tokens. */
  readonly units?: number;
  /** Number of tokens billed as output, including hidden reasoning. */
  readonly completionTokens: number;
  /** Number of visible tokens written to the socket; null for a plain answer. */
  readonly deliveredTokens: number | null;
  /** True if the gateway itself broke off the answer. */
  readonly cutByGateway: boolean;
}

export interface BilledCall extends Consumption {
  /** Number of the call; 1 for the first call billed. */
  readonly number: number;
  readonly cost: PicoUsd;
  readonly minimumApplied: boolean;
  /**
   * True if the client left before the end of the answer. A plain answer is billed before it is written, so the value may
   * become true later.
   */
  abortedByClient: boolean;
}

export interface BilledTotals {
  readonly calls: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cost: PicoUsd;
}

/** Smallest bill for one completion. Missing tokens are charged at the output rate; a cost below `usd` is raised to it. */
export interface Minimum {
  readonly tokens?: number;
  readonly usd?: string;
}

export interface BillingOptions {
  readonly startingBalanceUsd: string;
  /** Prices that are added to the sandbox's table or replace its entries. */
  readonly prices: Readonly<Record<string, ModelPrice>>;
  readonly minimum: Minimum;
  readonly errors: readonly BillingError[];
  /** Number of calls kept in the ledger. The totals include all calls. */
  readonly keepCalls: number;
}

/** Prices in pico-USD per token. USD per 1M tokens with six decimals converts to whole numbers. */
interface Rate {
  readonly input: bigint;
  readonly cachedInput: bigint;
  readonly partInput: bigint;
  readonly output: bigint;
  readonly minimumTokens: number;
  readonly minimumPicoUsd: bigint;
}

/** Bill of the gateway. It does not share Farebox's arithmetic, so that comparing the two finds errors in either. */
export class Billing {
  readonly ledger: BilledCall[] = [];
  readonly purse: Purse;
  readonly #rates = new Map<string, Rate>();
  readonly #keepCalls: number;
  readonly #minimum: Minimum;
  readonly #errors: readonly BillingError[];
  #calls = 0;
  #promptTokens = 0;
  #completionTokens = 0;
  #cost = 0n;

  constructor(options: BillingOptions) {
    this.#keepCalls = options.keepCalls;
    this.#minimum = options.minimum;
    this.#errors = options.errors;
    this.purse = new Purse(options.startingBalanceUsd);
    for (const [model, price] of Object.entries({ ...listPrices(), ...options.prices })) {
      this.#rates.set(model, this.#rateFrom(price));
    }
  }

  charge(call: Consumption, abortedByClient: boolean): BilledCall {
    const { cost, minimumApplied } = this.quote(call);
    this.#calls += 1;
    this.#promptTokens += call.promptTokens;
    this.#completionTokens += call.completionTokens;
    this.#cost += cost;
    const billed = { ...call, number: this.#calls, cost, minimumApplied, abortedByClient };
    this.ledger.push(billed);
    if (this.ledger.length > 2 * this.#keepCalls) this.ledger.splice(0, this.ledger.length - this.#keepCalls);
    return billed;
  }

  /** Computes the cost of a call without billing it. */
  quote(
    call: Pick<
      Consumption,
      "model" | "stream" | "promptTokens" | "cachedTokens" | "partTokens" | "completionTokens" | "units"
    >,
  ): {
    cost: PicoUsd;
    minimumApplied: boolean;
  } {
    if (call.units !== undefined)
      return { cost: (BigInt(call.units) * picoUsdPerUnit) as PicoUsd, minimumApplied: false };
    const rate = this.#rateOf(call.model);
    const parts = call.partTokens ?? 0;
    const uncached = BigInt(call.promptTokens - call.cachedTokens - parts) * rate.input;
    const cost =
      uncached +
      BigInt(parts) * rate.partInput +
      BigInt(call.cachedTokens) * rate.cachedInput +
      BigInt(call.completionTokens) * rate.output;
    const shortfall = rate.minimumTokens - call.promptTokens - call.completionTokens;
    const filled = shortfall > 0 ? cost + BigInt(shortfall) * rate.output : cost;
    const whole = filled < rate.minimumPicoUsd ? rate.minimumPicoUsd : filled;
    const billed = misbilled(this.#errors, call, { cost: whole, beforeMinimum: cost });
    return { cost: billed as PicoUsd, minimumApplied: whole !== cost };
  }

  get balance(): PicoUsd {
    return this.purse.balance(this.#cost);
  }

  get totals(): BilledTotals {
    return {
      calls: this.#calls,
      promptTokens: this.#promptTokens,
      completionTokens: this.#completionTokens,
      cost: this.#cost as PicoUsd,
    };
  }

  get models(): string[] {
    return [...this.#rates.keys()].filter((name) => name !== "*");
  }

  /**
   * Returns the price of a model by its name, then by the name without a date ("gpt-4o-2024-11-20"), then that of unknown
   * models.
   */
  #rateOf(model: string): Rate {
    const rate =
      this.#rates.get(model) ??
      this.#rates.get(model.replace(/-(\d{4}-\d{2}-\d{2}|\d{8})$/, "")) ??
      this.#rates.get("*");
    if (rate === undefined) throw new Error("the sandbox's prices have no entry for unknown models");
    return rate;
  }

  #rateFrom(price: ModelPrice): Rate {
    return {
      input: perToken(price.input),
      cachedInput: perToken(price.cachedInput ?? price.input),
      partInput: perToken(price.partInput ?? price.input),
      output: perToken(price.output),
      minimumTokens: price.minimumTokens ?? this.#minimum.tokens ?? 0,
      minimumPicoUsd: picoUsd(price.minimumUsd ?? this.#minimum.usd ?? "0"),
    };
  }
}

const picoUsdPerUnit = 100_000n;

/** Converts USD per 1M tokens to pico-USD per token. */
function perToken(usdPerMillion: string): bigint {
  const amount = picoUsd(usdPerMillion);
  if (amount % 1_000_000n !== 0n) throw new RangeError(`finer than six decimals: ${usdPerMillion}`);
  return amount / 1_000_000n;
}
