import { tokenClasses } from "../../core/usage.ts";
import { rollupCounts } from "../rollups.ts";

/** Sums of the charges of a span with the same values in `rollupDimensions`. Corresponds to a row of a rollup. */
export interface Cell {
  readonly name: string;
  /** Values of the columns in `rollupDimensions`, in the same order. */
  readonly identity: readonly string[];
  /** Values of the columns in `rollupCounts`, then those in `tokenClasses`. All are far below 2^53. */
  readonly counts: number[];
  cost: bigint;
  listCost: bigint;
  inDoubt: bigint;
  /** True if the cell belongs to the current span. */
  isUsed: boolean;
}

/** Index of the first token class in a cell's `counts`. */
export const firstTokenClass = rollupCounts.length;

const zeros: readonly number[] = [...rollupCounts, ...tokenClasses].map(() => 0);

/** Largest number of cells that the pool keeps for the next span. With more cells, the pool keeps none. */
const cellsKept = 50_000;

/**
 * Cells of the current span. The pool reuses them for the next span, because consecutive spans have mostly the same
 * keys and models. Millions of new cells would burden the garbage collector.
 */
export class CellPool {
  readonly #cells = new Map<string, Cell>();
  #used: Cell[] = [];

  /** Returns the cell with a name. At its first use in a span, the cell is empty. */
  of(name: string, identity: readonly string[] | (() => readonly string[])): Cell {
    let cell = this.#cells.get(name);
    if (cell === undefined) {
      cell = {
        name,
        identity: typeof identity === "function" ? identity() : identity,
        counts: zeros.slice(),
        cost: 0n,
        listCost: 0n,
        inDoubt: 0n,
        isUsed: false,
      };
      this.#cells.set(name, cell);
    }
    if (!cell.isUsed) {
      cell.isUsed = true;
      this.#used.push(cell);
    }
    return cell;
  }

  /** Returns the cell with a name; undefined if this span has not used it. */
  find(name: string): Cell | undefined {
    const cell = this.#cells.get(name);
    return cell?.isUsed === true ? cell : undefined;
  }

  /** Yields the cells that this span has used. Omits cells whose `isUsed` a caller has cleared. */
  *used(): Iterable<Cell> {
    for (const cell of this.#used) if (cell.isUsed) yield cell;
  }

  /** Empties all cells for the next span. */
  clear(): void {
    for (const cell of this.#used) {
      cell.counts.fill(0);
      cell.cost = 0n;
      cell.listCost = 0n;
      cell.inDoubt = 0n;
      cell.isUsed = false;
    }
    this.#used = [];
    if (this.#cells.size > cellsKept) this.#cells.clear();
  }
}

export function addCell(to: Cell, from: Cell): void {
  for (let index = 0; index < to.counts.length; index++)
    to.counts[index] = (to.counts[index] ?? 0) + (from.counts[index] ?? 0);
  to.cost += from.cost;
  to.listCost += from.listCost;
  to.inDoubt += from.inDoubt;
}

export function nameOf(identity: readonly string[]): string {
  return identity.join("\0");
}
