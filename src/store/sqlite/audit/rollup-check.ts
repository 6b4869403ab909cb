import type { Connection } from "../connection.ts";
import { rollupDimensions, rollupSums } from "../rollups.ts";
import { addCell, CellBook, nameOf, type Cell } from "./cells.ts";
import { differing, type Derived, type Report } from "./findings.ts";

/** Which rollup, and how it says time. Times of both grow with the instants of the charges. */
export interface RollupKind<T extends number | string> {
  readonly table: "rollup_quarter" | "rollup_day";
  readonly column: string;
  /** Rows that are looked at. */
  readonly kept: string;
  readonly read: (stored: unknown) => T;
  readonly show: (time: T) => string;
  readonly derived: (time: T, key: string) => Derived;
}

export const quarters: RollupKind<number> = {
  table: "rollup_quarter", column: "starts_at", kept: "starts_at >= (select quarters_from from meta)", read: Number,
  show: (time) => new Date(time).toISOString(), derived: (time, key) => ({ of: "rollup_quarter", time, key }),
};

export const days: RollupKind<string> = {
  table: "rollup_day", column: "day", kept: "true", read: String, show: (time) => time,
  derived: (time, key) => ({ of: "rollup_day", time, key }),
};

type StoredRow = readonly (string | bigint)[];

const sumsAt = 1 + rollupDimensions.length;
const noRow = "no row";

/** Compares a rollup with what its charges add up to, both in the order of time, and keeps the present time's sums only. */
export class RollupCheck<T extends number | string> {
  readonly #kind: RollupKind<T>;
  readonly #report: Report;
  readonly #stored: Iterator<StoredRow>;
  #next: StoredRow | undefined;
  #time: T | null = null;
  readonly #cells = new CellBook();

  constructor(db: Connection, kind: RollupKind<T>, report: Report) {
    this.#kind = kind;
    this.#report = report;
    const columns = [kind.column, ...rollupDimensions, ...rollupSums].join(", ");
    const order = [kind.column, ...rollupDimensions].join(", ");
    this.#stored = db
      .prepare(`select ${columns} from ${kind.table} where ${kind.kept} order by ${order}`)
      .raw()
      .safeIntegers()
      .iterate() as IterableIterator<StoredRow>;
    this.#advance();
  }

  /** Adds sums of a time that is not before the last one's. */
  add(time: T, cell: Cell): void {
    if (this.#time !== time) {
      this.#settle();
      this.#time = time;
    }
    addCell(this.#cells.of(cell.name, cell.identity), cell);
  }

  /** Compares what is left when all charges have been added. */
  end(): void {
    this.#settle();
    while (this.#next !== undefined) this.#extra(this.#next);
  }

  /** Releases the database where the rest is not wanted. */
  stop(): void {
    this.#stored.return?.();
  }

  #settle(): void {
    const time = this.#time;
    if (time === null) return;
    while (this.#next !== undefined && this.#kind.read(this.#next[0]) <= time) this.#compare(this.#next, time);
    for (const cell of this.#cells.used()) this.#differ(time, cell.identity, rowText(cell), noRow);
    this.#cells.clear();
  }

  #compare(row: StoredRow, time: T): void {
    const identity = row.slice(1, sumsAt) as string[];
    const cell = this.#kind.read(row[0]) === time ? this.#cells.find(nameOf(identity)) : undefined;
    if (cell === undefined) {
      this.#extra(row);
      return;
    }
    if (!agrees(cell, row)) {
      const difference = differing(rollupSums, sumsOf(cell), row.slice(sumsAt));
      if (difference !== null) this.#differ(time, identity, difference.expected, difference.found);
    }
    cell.isUsed = false;
    this.#advance();
  }

  #extra(row: StoredRow): void {
    const difference = differing(rollupSums, rollupSums.map(() => 0), row.slice(sumsAt));
    this.#differ(this.#kind.read(row[0]), row.slice(1, sumsAt) as string[], noRow, difference?.found ?? "a row of zeros");
    this.#advance();
  }

  #differ(time: T, identity: readonly string[], expected: string, found: string): void {
    const { table, show, derived } = this.#kind;
    const id = `${table} ${[show(time), ...identity].join("/")}`;
    this.#report({ kind: "rollup", id, expected, found, derived: derived(time, identity[0] ?? "") });
  }

  #advance(): void {
    const { done, value } = this.#stored.next();
    this.#next = done === true ? undefined : value;
  }
}

/** Without making texts of it: nearly every row agrees. */
function agrees(cell: Cell, row: StoredRow): boolean {
  const { counts } = cell;
  for (let index = 0; index < counts.length; index++) if (Number(row[sumsAt + index]) !== counts[index]) return false;
  return row[sumsAt + counts.length] === cell.cost && row[sumsAt + counts.length + 1] === cell.listCost;
}

function sumsOf({ counts, cost, listCost }: Cell): (number | bigint)[] {
  return [...counts, cost, listCost];
}

function rowText(cell: Cell): string {
  return differing(rollupSums, sumsOf(cell), rollupSums.map(() => 0))?.expected ?? "a row of zeros";
}
