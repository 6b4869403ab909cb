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

/** Where a token class stands among the counts of a cell. */
export const firstTokenClass = rollupCounts.length;

const zeros: readonly number[] = [...rollupCounts, ...tokenClasses].map(() => 0);

/** Cells that are kept for the next span at most. */
const cellsKept = 50_000;

/**
 * The cells of one span after the other. They are used again: one span has much the same keys and models as the next, and
 * millions of cells would otherwise wait for the garbage collector.
 */
export class CellBook {
  readonly #cells = new Map<string, Cell>();
  #used: Cell[] = [];

  /** The cell of a name in this span, empty where it was not asked for before. */
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

  /** The cells of this span, as far as they were not taken out. */
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
