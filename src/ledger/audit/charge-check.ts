import { parseCanonicalPrice, type PriceVersion } from "../../core/price.ts";
import type { TaskInputs } from "../../core/task-settlement.ts";
import { contentId } from "../../wire/content-id.ts";
import type { ChargeRow } from "../charge-columns.ts";
import { rowsOf, type Query } from "../queries/query.ts";
import { recompute, type AuditedCharge } from "../recompute.ts";
import { eachRow } from "./feed.ts";
import type { Report } from "./findings.ts";
import { carriedDigest, rollupCounts, rollupDimensions } from "../rollups.ts";

/** Number of parsed prices in memory above which they are forgotten, between two charges. */
const pricesKept = 1000;

/** Recomputes each charge from its formula, inputs and stored price, and reports differences. */
export class ChargeCheck {
  readonly #report: Report;
  readonly #prices = new Map<string, PriceVersion | null>();
  readonly #priceOf = (id: string) => this.#prices.get(id) ?? null;

  constructor(report: Report) {
    this.#report = report;
  }

  /** Returns true if a charge names this price and `loadPrice` must read it before the charge is checked. */
  isMissing(price: string | null): price is string {
    return price !== null && !this.#prices.has(price);
  }

  *loadPrice(id: string): Query<void> {
    const [row] = yield* rowsOf<{ canonical: string }>({
      sql: "select canonical from price_versions where id = ?",
      values: [id],
    });
    this.#prices.set(id, row === undefined ? null : parsePrice(row.canonical));
  }

  /**
   * Checks the amounts of a charge. `task`: inputs of the formula `task`; null if they are missing or the charge has
   * another formula.
   */
  check(id: string, charge: AuditedCharge, task: TaskInputs | null): void {
    for (const { expected, found } of recompute(charge, this.#priceOf, () => task))
      this.#reportDifference(id, expected, found);
    if (this.#prices.size >= pricesKept) this.#prices.clear();
  }

  /**
   * Checks the amount in doubt: the whole cost if a posted charge has doubts, otherwise 0. Skips corrections and
   * carried sums.
   */
  checkDoubts({
    id,
    state,
    formula,
    cost,
    doubts,
    in_doubt: found,
  }: Pick<ChargeRow, "id" | "state" | "formula" | "cost" | "doubts" | "in_doubt">): void {
    const expected = state === "posted" && doubts !== null ? (cost ?? 0n) : 0n;
    if (formula !== "adjustment" && found !== expected)
      this.#reportDifference(id, `in doubt ${expected}`, `in doubt ${found}`);
  }

  /**
   * Checks that a correction belongs to a posted charge. `state`: state of the corrected charge; null if it is missing.
   */
  checkCorrection(id: string, adjusts: string, state: string | null): void {
    if (state !== "posted")
      this.#reportDifference(
        id,
        "a correction of a posted charge",
        `a correction of ${adjusts}, which is ${state ?? "missing"}`,
      );
  }

  #reportDifference(id: string, expected: string, found: string): void {
    this.#report({ kind: "charge", id, expected, found, derived: null });
  }
}

interface TaskRow {
  readonly task_id: string;
  readonly settled_at: bigint | null;
  readonly charge: string;
  readonly state: string | null;
}

/** Checks that each task has a charge, and that the task is settled if and only if the charge is. */
export function* checkTasks(report: Report): Query<void> {
  yield* eachRow<TaskRow>(
    `select task_id, settled_at, charge, charges.state from tasks left join charges on charges.id = tasks.charge
     where charges.state is null or (charges.state = 'pending') <> (settled_at is null)`,
    ({ task_id: id, settled_at: settledAt, charge, state }) => {
      const expected = `charge ${charge} is ${settledAt === null ? "pending" : "posted or void"}`;
      report({ kind: "task", id, expected, found: `charge ${charge} is ${state ?? "missing"}`, derived: null });
    },
  );
}

/** Checks that each stored price can be parsed and that its id is the digest of its text. */
export function* checkPrices(report: Report): Query<void> {
  const sql = "select id, canonical from price_versions order by id";
  yield* eachRow<{ readonly id: string; readonly canonical: string }>(sql, ({ id, canonical }) => {
    const digest = contentId(canonical);
    const differ = (expected: string, found: string) => report({ kind: "price", id, expected, found, derived: null });
    if (digest !== id) differ(`digest ${id}`, `digest ${digest}`);
    else if (parsePrice(canonical) === null) differ("the text of a price", "a text that cannot be parsed");
  });
}

/** Parses a stored price. Returns null if the text is not a price. */
function parsePrice(canonical: string): PriceVersion | null {
  try {
    return parseCanonicalPrice(canonical);
  } catch {
    return null;
  }
}

interface CarriedRow {
  readonly charge: bigint;
  readonly id: string | null;
  readonly admitted_at: bigint;
  readonly key: string;
  readonly team: string | null;
  readonly model: string;
  readonly entry: string | null;
  readonly price_group: string | null;
  readonly source: string | null;
  readonly route: string;
  readonly requests: bigint;
  readonly unpriced: bigint;
  readonly retries: bigint;
}

/**
 * Checks the counts of carried sums. Each row of counts must belong to a carried sum whose id contains the digest of
 * its contents. The row's unpriced requests and retries must not exceed its requests. `ChargePass` reports carried sums
 * without counts.
 */
export function* checkCarried(report: Report): Query<void> {
  const columns = ["id", "admitted_at", "route", ...rollupDimensions].join(", ");
  const counts = rollupCounts.join(", ");
  yield* eachRow<CarriedRow>(
    `select charge, ${columns}, ${counts} from carried left join charges on seq = charge`,
    (row) => checkCarriedRow(row, report),
  );
}

function checkCarriedRow(row: CarriedRow, report: Report): void {
  const differ = (expected: string, found: string, isRepairable: boolean) =>
    report({
      kind: "carried",
      id: row.id ?? String(row.charge),
      expected,
      found,
      derived: isRepairable ? { of: "carried", charge: Number(row.charge) } : null,
    });
  if (row.id === null) {
    differ("a carried sum for these counts", "no carried sum", true);
    return;
  }
  const digest = carriedDigest([row.admitted_at, row.key, row.team, row.model, row.price_group, row.source, row.entry]);
  if (row.route !== "carried" || !row.id.endsWith(`-${digest}`))
    differ(`a carried sum with the digest ${digest}`, `${row.route} ${row.id}`, false);
  const { requests, unpriced, retries } = row;
  if (unpriced < 0n || retries < 0n || unpriced > requests || retries > requests) {
    differ(
      "unpriced and retries between 0 and requests",
      `requests ${requests}, unpriced ${unpriced}, retries ${retries}`,
      false,
    );
  }
}
