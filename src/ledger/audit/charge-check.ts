import { parseCanonicalPrice, type PriceVersion } from "../../core/price.ts";
import type { TaskInputs } from "../../core/task-settlement.ts";
import { contentId } from "../../wire/content-id.ts";
import type { ChargeRow } from "../charge-columns.ts";
import { rowsOf, type Query } from "../queries/query.ts";
import { recompute, type Audited } from "../recompute.ts";
import { Feed } from "./feed.ts";
import type { Report } from "./findings.ts";

/** Most parsed prices kept in memory. */
const pricesKept = 1000;

/** Recomputes charges one by one from their formula, inputs and stored price. */
export class ChargeCheck {
  readonly #report: Report;
  readonly #prices = new Map<string, PriceVersion | null>();
  readonly #priceOf = (id: string) => this.#prices.get(id) ?? null;

  constructor(report: Report) {
    this.#report = report;
  }

  /** Returns whether this price must be read before a charge that names it is checked. */
  isMissing(price: string | null): price is string {
    return price !== null && !this.#prices.has(price);
  }

  *getPrice(id: string): Query<void> {
    const [row] = yield* rowsOf<{ canonical: string }>({
      sql: "select canonical from price_versions where id = ?",
      values: [id],
    });
    if (this.#prices.size >= pricesKept) this.#prices.clear();
    this.#prices.set(id, row === undefined ? null : parsePrice(row.canonical));
  }

  /** `task`: the basis of a charge of the formula `task`; null if it is lost. */
  check(id: string, charge: Audited, task: TaskInputs | null): void {
    for (const { expected, found } of recompute(charge, this.#priceOf, () => task)) this.#differ(id, expected, found);
  }

  /** The amount in doubt is the whole cost of a charge with doubts, and for a carried sum that of its charges. */
  checkDoubts({
    id,
    state,
    formula,
    cost,
    doubts,
    in_doubt: found,
  }: Pick<ChargeRow, "id" | "state" | "formula" | "cost" | "doubts" | "in_doubt">): void {
    const expected = state === "posted" && doubts !== null ? (cost ?? 0n) : 0n;
    if (formula !== "adjustment" && found !== expected) this.#differ(id, `in doubt ${expected}`, `in doubt ${found}`);
  }

  /** Checks that a correction belongs to the posted charge of a request. `state` is that charge's; null for none. */
  checkCorrection(id: string, adjusts: string, state: string | null): void {
    if (state !== "posted") this.#differ(id, "corrects a posted charge", `corrects ${adjusts}`);
  }

  #differ(id: string, expected: string, found: string): void {
    this.#report({ kind: "charge", id, expected, found, derived: null });
  }
}

interface TaskRow {
  readonly task_id: string;
  readonly settled_at: bigint | null;
  readonly charge: string;
  readonly state: string | null;
}

/** Checks that a task is settled exactly when its charge is. */
export function* checkTasks(report: Report): Query<void> {
  const rows = new Feed<TaskRow>(
    `select task_id, settled_at, charge, charges.state from tasks left join charges on charges.id = tasks.charge
     where charges.state is null or (charges.state = 'pending') <> (settled_at is null)`,
  );
  for (yield* rows.fill(); rows.next !== undefined; rows.advance(), yield* rows.fill()) {
    const { task_id: id, settled_at: settledAt, charge, state } = rows.next;
    const expected = settledAt === null ? `a pending charge ${charge}` : `a charge ${charge} that has ended`;
    report({ kind: "task", id, expected, found: state === null ? "no such charge" : state, derived: null });
  }
}

/** Checks that each stored price can be parsed, and that its id is the digest of its text. */
export function* checkPrices(report: Report): Query<void> {
  const rows = new Feed<{ readonly id: string; readonly canonical: string }>(
    "select id, canonical from price_versions order by id",
  );
  for (yield* rows.fill(); rows.next !== undefined; rows.advance(), yield* rows.fill()) {
    const { id, canonical } = rows.next;
    const digest = contentId(canonical);
    if (digest !== id)
      report({
        kind: "price",
        id,
        expected: `a price with the digest ${id}`,
        found: `digest ${digest}`,
        derived: null,
      });
    else if (parsePrice(canonical) === null)
      report({ kind: "price", id, expected: "a price", found: "a text that is none", derived: null });
  }
}

/** Parses a stored price; null for a text that is no price. */
function parsePrice(canonical: string): PriceVersion | null {
  try {
    return parseCanonicalPrice(canonical);
  } catch {
    return null;
  }
}
