import { parseUsd, type PicoUsd } from "../core/money.ts";

/** Pico-USD of a decimal string. Throws RangeError on a malformed one. */
export function picoUsd(text: string): bigint {
  const amount = parseUsd(text);
  if (amount === undefined) throw new RangeError(`not an amount of USD: ${text}`);
  return amount;
}

/** Changes of the account's credits other than billed calls. Amounts are decimal strings of USD. */
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

  /** Spends as another client with the same account would. */
  useByOthers(amountUsd: string): void {
    this.#usedByOthers += picoUsd(amountUsd);
  }

  /** Returns the balance after calls of this cost. */
  balance(cost: bigint): PicoUsd {
    return (this.credited - this.expired - this.frozen - this.#usedByOthers - cost) as PicoUsd;
  }
}
