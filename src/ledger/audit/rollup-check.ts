import { rollupDimensions, rollupSums } from "../rollups.ts";
import type { Dialect } from "../queries/dialects.ts";
import { sumSql, type Query } from "../queries/query.ts";
import { addCell, CellPool, nameOf, type Cell } from "./cells.ts";
import { Feed } from "./feed.ts";
import { differing, type Derived, type Report } from "./findings.ts";

/** One of the two rollups. Its rows, sorted by time, follow the order of the charges. */
interface RollupKind<T extends number | string> {
  readonly table: "rollup_quarter" | "rollup_day";
  readonly column: string;
  /** SQL condition for the rows to check. */
  readonly condition: string;
  /** Parses the stored time of a row. */
  readonly read: (stored: unknown) => T;
  /** Formats a time for people. */
  readonly show: (time: T) => string;
  /** Identifies a key's rows at a time, for the repair. */
  readonly derived: (time: T, key: string) => Derived;
}

export const quarters: RollupKind<number> = {
  table: "rollup_quarter",
  column: "starts_at",
  condition: "starts_at >= (select quarters_from from meta)",
  read: Number,
  show: (time) => new Date(time).toISOString(),
  derived: (time, key) => ({ of: "rollup_quarter", time, key }),
};

export const days: RollupKind<string> = {
  table: "rollup_day",
  column: "day",
  condition: "true",
  read: String,
  show: (time) => time,
  derived: (time, key) => ({ of: "rollup_day", time, key }),
};

type StoredRow = Readonly<Record<string, string | bigint>>;

const noRow = "no row";

/**
 * Compares a rollup with the sums of its charges, in order of time. Keeps only the sums of one quarter hour or day in
 * memory, the one that `moveTo` selects.
 */
export class RollupCheck<T extends number | string> {
  readonly #kind: RollupKind<T>;
  readonly #report: Report;
  readonly #stored: Feed<StoredRow>;
  #time: T | null = null;
  readonly #cells = new CellPool();

  constructor(dialect: Dialect, kind: RollupKind<T>, report: Report) {
    this.#kind = kind;
    this.#report = report;
    this.#stored = new Feed(storedRows(dialect, kind));
  }

  /**
   * Selects the quarter hour or day that starts at `time`. First compares the rows up to the previously selected one.
   * `time` must not be earlier than in the previous call.
   */
  *moveTo(time: T): Query<void> {
    if (this.#time === time) return;
    yield* this.#compareRows();
    this.#time = time;
  }

  /** Adds sums of charges of the selected quarter hour or day. */
  add(cell: Cell): void {
    addCell(this.#cells.of(cell.name, cell.identity), cell);
  }

  /** Compares the remaining rows. Must be called after all charges are added. */
  *end(): Query<void> {
    yield* this.#compareRows();
    for (yield* this.#stored.fill(); this.#stored.next !== undefined; yield* this.#stored.fill())
      this.#reportExtra(this.#stored.next);
  }

  /** Compares the rows up to the selected quarter hour or day, and empties the sums. */
  *#compareRows(): Query<void> {
    const time = this.#time;
    if (time === null) return;
    for (;;) {
      if (this.#stored.isUsedUp) yield* this.#stored.fill();
      const row = this.#stored.next;
      if (row === undefined || this.#timeOf(row) > time) break;
      this.#compare(row, time);
    }
    for (const cell of this.#cells.used()) this.#reportDifference(time, cell.identity, rowText(cell), noRow);
    this.#cells.clear();
  }

  #compare(row: StoredRow, time: T): void {
    const identity = identityOf(row);
    const cell = this.#timeOf(row) === time ? this.#cells.find(nameOf(identity)) : undefined;
    if (cell === undefined) {
      this.#reportExtra(row);
      return;
    }
    if (!agrees(cell, row)) {
      const difference = differing(rollupSums, sumsOf(cell), storedSums(row));
      if (difference !== null) this.#reportDifference(time, identity, difference.expected, difference.found);
    }
    cell.isUsed = false;
    this.#stored.advance();
  }

  /** Reports a stored row that no charge accounts for. */
  #reportExtra(row: StoredRow): void {
    const difference = differing(
      rollupSums,
      rollupSums.map(() => 0),
      storedSums(row),
    );
    this.#reportDifference(this.#timeOf(row), identityOf(row), noRow, difference?.found ?? "a row of zeros");
    this.#stored.advance();
  }

  #timeOf(row: StoredRow): T {
    return this.#kind.read(row[this.#kind.column]);
  }

  #reportDifference(time: T, identity: readonly string[], expected: string, found: string): void {
    const { table, show, derived } = this.#kind;
    const id = `${table} ${[show(time), ...identity].join("/")}`;
    this.#report({ kind: "rollup", id, expected, found, derived: derived(time, identity[0] ?? "") });
  }
}

/** Returns the SQL that selects the rows of a rollup in order of time. */
function storedRows(
  { isSharded }: Dialect,
  { table, column, condition }: Pick<RollupKind<number>, "table" | "column" | "condition">,
): string {
  const names = [column, ...rollupDimensions].join(", ");
  const sums = rollupSums.map((name) => (isSharded ? `${sumSql(name)} as ${name}` : name)).join(", ");
  return `select ${names}, ${sums} from ${table} where ${condition} ${isSharded ? `group by ${names}` : ""} order by ${names}`;
}

function identityOf(row: StoredRow): string[] {
  return rollupDimensions.map((name) => String(row[name]));
}

function storedSums(row: StoredRow): (string | bigint | undefined)[] {
  return rollupSums.map((name) => row[name]);
}

/** Returns true if a stored row has the expected sums. Compares without formatting, because nearly every row agrees. */
function agrees(cell: Cell, row: StoredRow): boolean {
  const { counts } = cell;
  for (let index = 0; index < counts.length; index++)
    if (Number(row[rollupSums[index] as string]) !== counts[index]) return false;
  return row["cost"] === cell.cost && row["list_cost"] === cell.listCost && row["in_doubt"] === cell.inDoubt;
}

function sumsOf({ counts, cost, listCost, inDoubt }: Cell): (number | bigint)[] {
  return [...counts, cost, listCost, inDoubt];
}

function rowText(cell: Cell): string {
  return (
    differing(
      rollupSums,
      sumsOf(cell),
      rollupSums.map(() => 0),
    )?.expected ?? "a row of zeros"
  );
}
