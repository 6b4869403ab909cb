import { add, formatUsd, noMoney, type PicoUsd } from "../../core/money.ts";
import { seriesName, type About, type Family } from "./family.ts";
import { labelText, SeriesCache } from "./labels.ts";

interface Total {
  /** The total as it is written on the page. */
  text(): string;
}

export class Count implements Total {
  #total = 0;

  add(count: number): void {
    this.#total += count;
  }

  text(): string {
    return String(this.#total);
  }
}

/** An exact sum. A counter never decreases, so negative amounts are left out. */
export class Money implements Total {
  #total: PicoUsd = noMoney;

  add(amount: PicoUsd): void {
    if (amount > 0n) this.#total = add(this.#total, amount);
  }

  text(): string {
    return usdText(this.#total);
  }
}

/** Formats an amount with all its digits and no trailing zeros: "0", "12", "0.00125". */
export function usdText(amount: PicoUsd): string {
  return formatUsd(amount).replace(/\.?0+$/, "");
}

/**
 * Counters that hold their totals themselves: an increment is an addition and nothing else, and money stays exact up to
 * the page, which a counter of floating-point numbers cannot give. A series starts at 0 when it is asked for.
 */
class CounterFamily<T extends Total> implements Family {
  readonly type = "counter";
  readonly name: string;
  readonly help: string;
  readonly #series: SeriesCache<{ readonly name: string; readonly total: T }>;

  constructor({ name, help, labels }: About & { readonly labels: readonly string[] }, zero: () => T) {
    this.name = name;
    this.help = help;
    this.#series = new SeriesCache((...values) => ({
      name: seriesName(name, labelText(labels, values)),
      total: zero(),
    }));
  }

  of(...labels: string[]): T {
    return this.#series.of(...labels).total;
  }

  *lines(): Iterable<string> {
    for (const { name, total } of this.#series.all()) yield `${name} ${total.text()}\n`;
  }
}

export function counts(about: About & { readonly labels: readonly string[] }): CounterFamily<Count> {
  return new CounterFamily(about, () => new Count());
}

export function amounts(about: About & { readonly labels: readonly string[] }): CounterFamily<Money> {
  return new CounterFamily(about, () => new Money());
}
