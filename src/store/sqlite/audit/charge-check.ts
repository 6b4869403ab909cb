import { parseCanonicalPrice, type PriceVersion } from "../../../core/price.ts";
import { contentId } from "../../../wire/content-id.ts";
import { recompute, type Audited } from "../../recompute.ts";
import type { Connection, Statement } from "../connection.ts";
import { taskOf, type TaskRow } from "../../rows/tasks.ts";
import type { Report } from "./findings.ts";

/** Parsed prices that are kept in memory at most. */
const pricesKept = 1000;

/** Recomputes charges one by one from their formula, inputs and stored price. */
export class ChargeCheck {
  readonly #report: Report;
  readonly #findPrice: Statement;
  readonly #stateOf: Statement;
  readonly #task: Statement;
  readonly #inputsOf = (charge: string) => {
    const row = this.#task.get(charge) as TaskRow | undefined;
    return row === undefined ? null : taskOf(row);
  };
  readonly #prices = new Map<string, PriceVersion | null>();
  readonly #priceOf = (id: string) => this.#price(id);

  constructor(db: Connection, report: Report) {
    this.#report = report;
    this.#findPrice = db.prepare("select canonical from price_versions where id = ?").pluck();
    this.#task = db.prepare("select * from tasks where charge = ?");
    this.#stateOf = db.prepare("select state from charges where id = ? and formula is not 'adjustment'").pluck();
  }

  check(id: string, charge: Audited): void {
    for (const { expected, found } of recompute(charge, this.#priceOf, this.#inputsOf)) this.#differ(id, expected, found);
  }

  /** A correction stands beside the posted charge of a request. */
  checkCorrection(id: string, adjusts: string): void {
    if (this.#stateOf.get(adjusts) !== "posted") this.#differ(id, "corrects a posted charge", `corrects ${adjusts}`);
  }

  #differ(id: string, expected: string, found: string): void {
    this.#report({ kind: "charge", id, expected, found, derived: null });
  }

  #price(id: string): PriceVersion | null {
    let price = this.#prices.get(id);
    if (price === undefined) {
      const canonical = this.#findPrice.get(id) as string | undefined;
      price = canonical === undefined ? null : parsePrice(canonical);
      if (this.#prices.size >= pricesKept) this.#prices.clear();
      this.#prices.set(id, price);
    }
    return price;
  }
}

/** A task is settled when its charge has ended, and not before. */
export function checkTasks(db: Connection, report: Report): void {
  const rows = db
    .prepare(
      `select task_id, settled_at, charge, charges.state from tasks left join charges on charges.id = tasks.charge
       where charges.state is null or (charges.state = 'pending') <> (settled_at is null)`,
    )
    .iterate() as IterableIterator<{ task_id: string; settled_at: number | null; charge: string; state: string | null }>;
  for (const { task_id: id, settled_at: settledAt, charge, state } of rows) {
    const expected = settledAt === null ? `a pending charge ${charge}` : `a charge ${charge} that has ended`;
    report({ kind: "task", id, expected, found: state === null ? "no such charge" : state, derived: null });
  }
}

/** Every stored price is the text that its id is the digest of, and can be read. */
export function checkPrices(db: Connection, report: Report): void {
  const rows = db.prepare("select id, canonical from price_versions order by id").iterate() as IterableIterator<{ id: string; canonical: string }>;
  for (const { id, canonical } of rows) {
    const digest = contentId(canonical);
    if (digest !== id) report({ kind: "price", id, expected: `a price with the digest ${id}`, found: `digest ${digest}`, derived: null });
    else if (parsePrice(canonical) === null) report({ kind: "price", id, expected: "a price", found: "a text that is none", derived: null });
  }
}

/** Null for a text that is not a price any more. */
function parsePrice(canonical: string): PriceVersion | null {
  try {
    return parseCanonicalPrice(canonical);
  } catch {
    return null;
  }
}
