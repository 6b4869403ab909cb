import type { Counter } from "prom-client";
import { add, noMoney, usdNumber, type PicoUsd } from "../core/money.ts";

/** What counts up in one place and is told to the exposition at each scrape: an increment there is dear. */
type Series = Pick<Counter.Internal, "inc">;

export class Tally {
  readonly #series: Series;
  #since = 0;

  constructor(series: Series) {
    this.#series = series;
  }

  add(count: number): void {
    this.#since += count;
  }

  flush(): void {
    if (this.#since > 0) this.#series.inc(this.#since);
    this.#since = 0;
  }
}

/** Summed exactly between scrapes; a counter never goes down, so what is below 0 is left out. */
export class MoneyTally {
  readonly #series: Series;
  #since: PicoUsd = noMoney;

  constructor(series: Series) {
    this.#series = series;
  }

  add(amount: PicoUsd): void {
    if (amount > 0n) this.#since = add(this.#since, amount);
  }

  flush(): void {
    if (this.#since > 0n) this.#series.inc(usdNumber(this.#since));
    this.#since = noMoney;
  }
}

/** All tallies of the metrics. A series that is made starts at 0. */
export class Tallies {
  readonly #all: (Tally | MoneyTally)[] = [];

  count(series: Series): Tally {
    return this.#added(series, new Tally(series));
  }

  money(series: Series): MoneyTally {
    return this.#added(series, new MoneyTally(series));
  }

  /** Before a scrape. */
  flush(): void {
    for (const tally of this.#all) tally.flush();
  }

  #added<T extends Tally | MoneyTally>(series: Series, tally: T): T {
    series.inc(0);
    this.#all.push(tally);
    return tally;
  }
}
