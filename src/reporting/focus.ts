import type { Charge } from "../core/charge.ts";
import { decidingPrice } from "../core/cost.ts";
import type { PriceVersion } from "../core/price.ts";
import { tokenClasses } from "../core/usage.ts";
import type { Calendar } from "../ports/calendar.ts";
import { pricesOf, type ChargeStream, type StoredPrices, type TimeSpan } from "../ports/ledger.ts";
import { csvOf } from "./csv.ts";
import { cellsOf, focusColumns, type FocusOptions } from "./focus-columns.ts";
import {
  focusLines,
  identityOf,
  identityAt,
  type FocusLine,
  type FocusRow,
  type Priced,
  type RowIdentity,
} from "./focus-lines.ts";
import type { NameOf } from "./names.ts";

/** Counts of the charges that an export omits. */
export interface LeftOut {
  /** Posted charges without a cost. FOCUS requires a cost, and an unknown cost must not be shown as 0. */
  unpriced: number;
  /** Charges that are not settled yet. */
  pending: number;
}

/**
 * Largest number of rows in memory. On a day with more rows, the export may contain several rows that differ only in
 * quantity and cost.
 */
const rowsKept = 20_000;

/**
 * Yields FOCUS rows as CSV: sums of a span's posted charges by day, key, model, price, tier, token class, source,
 * doubts, tags, labels and user. The sums of BilledCost and ListCost equal the ledger's exactly. Adds the charges that
 * it omits to `leftOut`.
 */
export async function* focusCsv(
  tools: { readonly ledger: ChargeStream; readonly nameOf: NameOf; readonly calendar: Calendar },
  span: TimeSpan,
  options: FocusOptions,
  leftOut: LeftOut,
): AsyncGenerator<string> {
  const columns = focusColumns(options.version);
  yield csvOf([columns]);
  const days = new DayRows(tools.calendar, span);
  const prices = new PriceCache(tools.ledger);
  const text = (rows: readonly FocusRow[]) =>
    csvOf(rows.map((row) => cellsOf(row, { columns, options, nameOf: tools.nameOf })));
  for await (const charges of tools.ledger.stream(span)) {
    for (const charge of charges) {
      if (charge.state === "pending") leftOut.pending++;
      if (charge.state !== "posted") continue;
      const priced = await pricedBy(charge, prices);
      const lines = focusLines(charge, priced);
      if (lines === null) {
        leftOut.unpriced++;
        continue;
      }
      if (days.isDoneBefore(charge)) yield text(days.takeRows());
      days.add(charge, priced, lines);
    }
  }
  yield text(days.takeRows());
}

async function pricedBy(charge: Charge, known: PriceCache): Promise<Priced> {
  const { priceId, servedPriceId, tokens, formula } = charge;
  const prices = await pricesOf(known, charge);
  const isPriced = formula === "tokens" || formula === "per_request";
  const billing = prices?.billing ?? charge.billing;
  const price = prices === undefined || !isPriced ? prices?.price : decidingPrice(prices, tokens, billing);
  return { price, priceId: prices !== undefined && price === prices.servedPrice ? servedPriceId : priceId, billing };
}

/** Caches stored price versions. There are few of them, and every charge needs one. */
class PriceCache {
  readonly #ledger: StoredPrices;
  readonly #known = new Map<string, PriceVersion | undefined>();

  constructor(ledger: StoredPrices) {
    this.#ledger = ledger;
  }

  async price(id: string): Promise<PriceVersion | undefined> {
    if (this.#known.has(id)) return this.#known.get(id);
    const price = await this.#ledger.price(id);
    if (this.#known.size >= 1000) this.#known.clear();
    this.#known.set(id, price);
    return price;
  }
}

/** Collects the rows of one day. Charges must be added in order of time. */
class DayRows {
  readonly #calendar: Calendar;
  readonly #span: TimeSpan;
  #day = { start: 0, end: 0 };
  #rows = new Map<string, FocusRow>();

  constructor(calendar: Calendar, span: TimeSpan) {
    this.#calendar = calendar;
    this.#span = span;
  }

  /**
   * Returns true if the rows must be written before this charge is added: the charge starts another day, or there are
   * too many rows.
   */
  isDoneBefore(charge: Charge): boolean {
    return this.#rows.size > 0 && (charge.at >= this.#day.end || this.#rows.size >= rowsKept);
  }

  add(charge: Charge, priced: Priced, lines: readonly FocusLine[]): void {
    if (charge.at >= this.#day.end) this.#day = this.#dayOf(charge.at);
    const identity = identityOf(charge, priced, this.#day, this.#calendar);
    const name = JSON.stringify(Object.values(identity));
    for (const { own, ...line } of lines) {
      if (own === undefined) this.#addLine(name, identity, line);
      else this.#addLine(`${name}\0${own.id}`, identityAt(own, identity), line);
    }
  }

  /** Returns the collected rows and removes them. */
  takeRows(): FocusRow[] {
    const rows = [...this.#rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    this.#rows = new Map();
    return rows;
  }

  #addLine(charge: string, identity: RowIdentity, line: FocusLine): void {
    const { meter, tool, unit, contracted, list, tierFrom } = line;
    const name = `${charge}\0${meter}\0${tool}\0${unit}\0${contracted}\0${list}\0${tierFrom}`;
    const row = this.#rows.get(name);
    if (row === undefined) {
      this.#rows.set(name, { ...identity, ...line, isToken: tokenClasses.some((each) => each === meter) });
      return;
    }
    row.quantity += line.quantity;
    if (row.consumed !== null && line.consumed !== null) row.consumed += line.consumed;
  }

  /** Returns the day of an instant, limited to the span of the export. */
  #dayOf(at: number): { readonly start: number; readonly end: number } {
    const { start, end } = this.#calendar.spanOf("1d", at);
    return { start: Math.max(start, this.#span.since), end: Math.min(end ?? this.#span.until, this.#span.until) };
  }
}
