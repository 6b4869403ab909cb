import type { Charge } from "../core/charge.ts";
import { decidingPrice } from "../core/cost.ts";
import type { PriceVersion } from "../core/price.ts";
import { tokenClasses } from "../core/usage.ts";
import type { Calendar } from "../ports/calendar.ts";
import { pricesOf, type ChargeStream, type StoredPrices, type TimeSpan } from "../ports/ledger.ts";
import { csvOf } from "./csv.ts";
import { cellsOf, focusColumns, type FocusOptions, type FocusRow } from "./focus-columns.ts";
import { focusLines, type FocusLine } from "./focus-lines.ts";
import type { NameOf } from "./names.ts";

/** Numbers of charges that an export leaves out. */
export interface LeftOut {
  /** Posted charges without a cost. FOCUS requires a cost, and an unknown cost must not be shown as 0. */
  unpriced: number;
  /** Charges that are not settled yet. */
  pending: number;
}

/** Largest number of rows in memory. A day with more combinations can have several rows for the same combination. */
const rowsKept = 20_000;

/**
 * Yields FOCUS rows as CSV: sums of a span's posted charges by day, key, model, price, tier, token class, source, doubts and
 * tags. The sums of BilledCost and ListCost equal the ledger's exactly.
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
  const prices = new KnownPrices(tools.ledger);
  const text = (rows: readonly FocusRow[]) =>
    csvOf(rows.map((row) => cellsOf(row, { columns, options, nameOf: tools.nameOf })));
  for await (const charges of tools.ledger.stream(span)) {
    for (const charge of charges) {
      if (charge.state === "pending") leftOut.pending++;
      if (charge.state !== "posted") continue;
      const priced = await pricedBy(charge, prices);
      const lines = focusLines(charge, priced.price);
      if (lines === null) {
        leftOut.unpriced++;
        continue;
      }
      if (days.isDoneBefore(charge)) yield text(days.take());
      days.add(charge, priced, lines);
    }
  }
  yield text(days.take());
}

/** Price of a charge's lines. */
interface Priced {
  readonly price: PriceVersion | undefined;
  readonly priceId: string | null;
}

async function pricedBy(charge: Charge, known: KnownPrices): Promise<Priced> {
  const { priceId, servedPriceId, tokens, billing, formula } = charge;
  const prices = await pricesOf(known, charge);
  const isPriced = formula === "tokens" || formula === "per_request";
  const price = prices === undefined || !isPriced ? prices?.price : decidingPrice(prices, tokens, billing);
  return { price, priceId: prices !== undefined && price === prices.servedPrice ? servedPriceId : priceId };
}

/** Caches stored price versions. There are few of them, and every charge needs one. */
class KnownPrices {
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

/** Collects the rows of one day. Charges must be added in the order of time. */
class DayRows {
  readonly #calendar: Calendar;
  readonly #span: TimeSpan;
  #day = { start: 0, end: 0 };
  #rows = new Map<string, FocusRow>();

  constructor(calendar: Calendar, span: TimeSpan) {
    this.#calendar = calendar;
    this.#span = span;
  }

  /** True if the rows must be written before this charge is added: it starts another day, or there are too many rows. */
  isDoneBefore(charge: Charge): boolean {
    return this.#rows.size > 0 && (charge.at >= this.#day.end || this.#rows.size >= rowsKept);
  }

  add(charge: Charge, priced: Priced, lines: readonly FocusLine[]): void {
    if (charge.at >= this.#day.end) this.#day = this.#dayOf(charge.at);
    const of = this.#identityOf(charge, priced);
    const name = JSON.stringify(Object.values(of));
    for (const line of lines) this.#addLine(name, of, line);
  }

  take(): FocusRow[] {
    const rows = [...this.#rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
    this.#rows = new Map();
    return rows;
  }

  #addLine(charge: string, of: Identity, line: FocusLine): void {
    const { meter, tool, unit, contracted, list, tierFrom } = line;
    const name = `${charge}\0${meter}\0${tool}\0${unit}\0${contracted}\0${list}\0${tierFrom}`;
    const row = this.#rows.get(name);
    if (row === undefined) {
      this.#rows.set(name, { ...of, ...line, isToken: tokenClasses.some((each) => each === meter) });
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

  #identityOf(charge: Charge, { price, priceId }: Priced): Identity {
    const { start, end } = this.#day;
    // A correction is billed in the month in which it is made, but its charge period is the day of the corrected charge.
    const billedAt = charge.formula === "adjustment" ? Math.max(charge.endedAt ?? charge.at, charge.at) : charge.at;
    const month = this.#calendar.spanOf("1mo", billedAt);
    const tags = Object.entries(charge.tags).sort(([a], [b]) => (a < b ? -1 : 1));
    return {
      periodStart: start,
      periodEnd: end,
      monthStart: month.start,
      monthEnd: month.end ?? month.start,
      key: charge.key,
      team: charge.team,
      model: charge.model,
      pricedModel: price?.model ?? charge.model,
      group: charge.group,
      priceId,
      serviceTier: charge.billing.serviceTier,
      source: charge.source,
      doubts: charge.doubts.join(" ") || null,
      isLate: month.start > charge.at,
      tags: tags.length === 0 ? null : JSON.stringify(Object.fromEntries(tags)),
    };
  }
}

type Identity = Omit<FocusRow, keyof FocusLine | "isToken">;
