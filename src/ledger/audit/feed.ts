import type { Query, Statement } from "../queries/query.ts";

/** Rows of one statement in order, read in parts so that memory holds a few. */
export class Feed<R> {
  // oxlint-disable-next-line no-unused-private-class-members -- the rule misses its use in `yield`
  readonly #statement: Statement;
  #rows: readonly R[] = [];
  #at = 0;
  #isOver = false;

  constructor(sql: string) {
    this.#statement = { sql, values: [], inParts: true };
  }

  /** Next row; undefined after the last one, and before the first fill. */
  get next(): R | undefined {
    return this.#rows[this.#at];
  }

  /** Moves to the following row. */
  advance(): void {
    this.#at++;
  }

  /** Reads the next part once all rows are used. Call before each use of `next` if `isUsedUp`. */
  *fill(): Query<void> {
    if (!this.isUsedUp) return;
    const statement = this.#statement;
    this.#rows = (yield statement) as readonly R[];
    this.#at = 0;
    this.#isOver = this.#rows.length === 0;
  }

  get isUsedUp(): boolean {
    return !this.#isOver && this.#at >= this.#rows.length;
  }
}
