import { tokenClasses } from "../../core/usage.ts";
import { rollupCounts } from "../rollups.ts";

/** Sums of the charges of one key, team, model, group and source in some span, in the order of a rollup's columns. */
export interface Cell {
  readonly name: string;
  /** In the order of `rollupDimensions`. */
  readonly identity: readonly string[];
  /** `rollupCounts`, then `tokenClasses`: all far below 2^53. */
  readonly counts: number[];
  cost: bigint;
  listCost: bigint;
  inDoubt: bigint;
  isUsed: boolean;
}

/** Index of the first token class among a cell's counts. */
export const firstTokenClass = rollupCounts.length;

const zeros: readonly number[] = [...rollupCounts, ...tokenClasses].map(() => 0);

/** Most cells to keep for the next span. */
const cellsKept = 50_000;

/**
 * Cells of the current span. They are reused, because consecutive spans have mostly the same keys and models, and
 * millions of cells would burden the garbage collector.
 */
export class CellBook {
  readonly #cells = new Map<string, Cell>();
  #used: Cell[] = [];

  /** Returns the cell of a name in this span; an empty one on first use. */
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

  find(name: string): Cell | undefined {
    const cell = this.#cells.get(name);
    return cell?.isUsed === true ? cell : undefined;
  }

  /** Iterates over the cells of this span that were not taken out. */
  *used(): Iterable<Cell> {
    for (const cell of this.#used) if (cell.isUsed) yield cell;
  }

  /** Begins the next span. */
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
