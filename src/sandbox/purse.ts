import { parseUsd, type PicoUsd } from "../core/money.ts";

/** Converts a decimal string of USD to pico-USD. Throws RangeError if it is malformed. */
export function picoUsd(text: string): bigint {
  const amount = parseUsd(text);
  if (amount === undefined) throw new RangeError(`not an amount of USD: ${text}`);
  return amount;
}

/** Account balance and its changes other than billed calls. Amounts are decimal strings of USD. */
export class Purse {
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
