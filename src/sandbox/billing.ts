import { parseUsd, type PicoUsd } from "../core/money.ts";
import { sandboxPrices, type ModelPrice } from "./prices.ts";

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
  /** Number of tokens of images or audio, included in promptTokens. These tokens have a separate price. */
  readonly partTokens?: number;
  /** Consumption of a task, in ten-millionths of a US dollar. A task has no tokens. */
  readonly units?: number;
  /** Runs and fees of an answer of /v1/messages, whose tokens have more prices than those of the other endpoints. */
  readonly message?: MessageParts;
  /** Number of tokens billed as output, including hidden reasoning. */
  readonly completionTokens: number;
  /** Number of visible tokens written to the socket; null for a plain answer. */
  readonly deliveredTokens: number | null;
  /** True if the gateway itself broke off the answer. */
  readonly cutByGateway: boolean;
}

/** Tokens of one run of a model. Each class has its own price, and no token is in two classes. */
export interface RunTokens {
  readonly input: number;
  readonly cached: number;
  /** Tokens written to the cache for five minutes, and for one hour. */
  readonly written: number;
  readonly writtenForAnHour: number;
  readonly output: number;
}

/** Parts of an answer of /v1/messages. The runs sum to the tokens of the call. */
export interface MessageParts {
  readonly runs: readonly RunTokens[];
  readonly searches: number;
  /** Fast mode: twice the price of all tokens, except of those read from the cache. */
  readonly fast: boolean;
  /** Inference in the US only: 1.1 times the price of all tokens. */
  readonly inUs: boolean;
}

export interface BilledCall extends Consumption {
  /** Number of the call; 1 for the first call billed. */
  readonly number: number;
  readonly cost: PicoUsd;
  readonly minimumApplied: boolean;
  /**
   * True if the client left before the end of the answer. A plain answer is billed before it is written, so the value
   * may become true later.
   */
  abortedByClient: boolean;
}

export interface BilledTotals {
  readonly calls: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cost: PicoUsd;
}

/**
 * Smallest bill for one completion. A call with fewer than `tokens` tokens pays the output rate for the missing ones. A
 * cost below `usd` is raised to `usd`.
 */
export interface Minimum {
  readonly tokens?: number;
  readonly usd?: string;
}

interface BillingOptions {
  readonly startingBalanceUsd: string;
  /** Prices that are added to the sandbox's table or replace its entries. */
  readonly prices: Readonly<Record<string, ModelPrice>>;
  readonly minimum: Minimum;
  readonly errors: readonly BillingError[];
  /** Smallest number of latest calls that the ledger keeps. The totals include all calls. */
  readonly keepCalls: number;
}

/**
 * Prices in pico-USD per token. They are whole numbers because a price in USD per 1M tokens has at most six decimals.
 */
interface Rate {
  readonly input: bigint;
  readonly cachedInput: bigint;
  readonly partInput: bigint;
  readonly cacheWrite: bigint;
  readonly cacheWriteForAnHour: bigint;
  readonly output: bigint;
  /** Price of one web search. */
  readonly search: bigint;
  readonly longPrompt: ModelPrice["longPrompt"];
  readonly minimumTokens: number;
  readonly minimumPicoUsd: bigint;
}

/** Bill of the gateway. Does not use Farebox's arithmetic, so that a comparison of the two finds errors in either. */
export class Billing {
  readonly ledger: BilledCall[] = [];
  readonly account: AccountBalance;
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
    this.account = new AccountBalance(options.startingBalanceUsd);
    for (const [model, price] of Object.entries({ ...sandboxPrices(), ...options.prices })) {
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
      "model" | "stream" | "promptTokens" | "cachedTokens" | "partTokens" | "message" | "completionTokens" | "units"
    >,
  ): {
    cost: PicoUsd;
    minimumApplied: boolean;
  } {
    if (call.units !== undefined)
      return { cost: (BigInt(call.units) * picoUsdPerUnit) as PicoUsd, minimumApplied: false };
    const rate = this.#rateOf(call.model);
    const cost = call.message === undefined ? tokenCost(call, rate) : messageCost(call.message, rate);
    const shortfall = rate.minimumTokens - call.promptTokens - call.completionTokens;
    const filled = shortfall > 0 ? cost + BigInt(shortfall) * rate.output : cost;
    const whole = filled < rate.minimumPicoUsd ? rate.minimumPicoUsd : filled;
    const billed = misbilled(this.#errors, call, { cost: whole, beforeMinimum: cost });
    return { cost: billed as PicoUsd, minimumApplied: whole !== cost };
  }

  get balance(): PicoUsd {
    return this.account.balance(this.#cost);
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
   * Returns the rate of a model. Searches for its name, then for its name without a date ("gpt-4o-2024-11-20"), and
   * then returns the rate of unknown models.
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
      cacheWrite: perToken(price.cacheWrite ?? price.input),
      cacheWriteForAnHour: perToken(price.cacheWriteForAnHour ?? price.input),
      output: perToken(price.output),
      search: picoUsd(price.search ?? "0"),
      longPrompt: price.longPrompt,
      minimumTokens: price.minimumTokens ?? this.#minimum.tokens ?? 0,
      minimumPicoUsd: picoUsd(price.minimumUsd ?? this.#minimum.usd ?? "0"),
    };
  }
}

function tokenCost(
  call: Pick<Consumption, "promptTokens" | "cachedTokens" | "partTokens" | "completionTokens">,
  rate: Rate,
): bigint {
  const parts = call.partTokens ?? 0;
  const uncached = BigInt(call.promptTokens - call.cachedTokens - parts) * rate.input;
  return (
    uncached +
    BigInt(parts) * rate.partInput +
    BigInt(call.cachedTokens) * rate.cachedInput +
    BigInt(call.completionTokens) * rate.output
  );
}

/** Returns the cost of an answer of /v1/messages. Each run's own prompt decides whether it is a long one. */
function messageCost({ runs, searches, fast, inUs }: MessageParts, rate: Rate): bigint {
  let cost = BigInt(searches) * rate.search;
  for (const { input, cached, written, writtenForAnHour, output } of runs) {
    const atFastPrice =
      BigInt(input) * rate.input +
      BigInt(written) * rate.cacheWrite +
      BigInt(writtenForAnHour) * rate.cacheWriteForAnHour +
      BigInt(output) * rate.output;
    const whole = atFastPrice * (fast ? 2n : 1n) + BigInt(cached) * rate.cachedInput;
    const { longPrompt } = rate;
    const isLong = longPrompt !== undefined && input + cached + written + writtenForAnHour > longPrompt.above;
    const ofPrompt = isLong ? whole * BigInt(longPrompt.times) : whole;
    cost += inUs ? (ofPrompt * 11n) / 10n : ofPrompt;
  }
  return cost;
}

const picoUsdPerUnit = 100_000n;

/** Converts USD per 1M tokens to pico-USD per token. */
function perToken(usdPerMillion: string): bigint {
  const amount = picoUsd(usdPerMillion);
  if (amount % 1_000_000n !== 0n)
    throw new RangeError(`a price per 1M tokens may have at most six decimals, not ${usdPerMillion}`);
  return amount / 1_000_000n;
}

/** Converts a decimal string of USD to pico-USD. Throws RangeError if the string is malformed. */
function picoUsd(text: string): bigint {
  const amount = parseUsd(text);
  if (amount === undefined) throw new RangeError(`"${text}" is not an amount of USD; write a decimal such as 25.00`);
  return amount;
}

/** Balance of the account before billed calls: credits, expiries, and spending by other clients. */
class AccountBalance {
  credited: bigint;
  expired = 0n;
  frozen = 0n;
  #usedByOthers = 0n;

  constructor(startingBalanceUsd: string) {
    this.credited = picoUsd(startingBalanceUsd);
  }

  topUp(amountUsd: string): void {
    this.credited += picoUsd(amountUsd);
  }

  expire(amountUsd: string): void {
    this.expired += picoUsd(amountUsd);
  }

  freeze(amountUsd: string): void {
    this.frozen += picoUsd(amountUsd);
  }

  unfreeze(amountUsd: string): void {
    this.frozen -= picoUsd(amountUsd);
  }

  /** Spends an amount as another client of the account would. */
  useByOthers(amountUsd: string): void {
    this.#usedByOthers += picoUsd(amountUsd);
  }

  /** Returns the balance after billed calls with this total cost. */
  balance(cost: bigint): PicoUsd {
    return (this.credited - this.expired - this.frozen - this.#usedByOthers - cost) as PicoUsd;
  }
}

/** Ways in which the sandbox can bill wrongly, to test `reconcile`. */
export const billingErrors = {
  "wrong-fraction": "bills 1% too much, as with a wrong fraction of the official price",
  "no-minimum": "forgets the minimum charge",
  "uncounted-streams": "does not bill streams",
  "rounded-up": "rounds each call up to a tenth of a cent",
} as const;

export type BillingError = keyof typeof billingErrors;

/**
 * Applies billing errors to the right cost, and returns the cost in pico-USD. `beforeMinimum` is the cost without a
 * minimum charge.
 */
function misbilled(
  errors: readonly BillingError[],
  call: Pick<Consumption, "stream">,
  right: { readonly cost: bigint; readonly beforeMinimum: bigint },
): bigint {
  if (errors.includes("uncounted-streams") && call.stream) return 0n;
  let cost = errors.includes("no-minimum") ? right.beforeMinimum : right.cost;
  if (errors.includes("wrong-fraction")) cost = (cost * 101n) / 100n;
  if (errors.includes("rounded-up")) cost += (tenthOfACent - (cost % tenthOfACent)) % tenthOfACent;
  return cost;
}

const tenthOfACent = 1_000_000_000n;
