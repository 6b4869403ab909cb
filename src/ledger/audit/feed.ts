import type { Query, Statement } from "../queries/query.ts";

/** Calls `read` with each row of a statement, in order. */
export function* eachRow<R>(sql: string, read: (row: R) => void): Query<void> {
  const rows = new Feed<R>(sql);
  for (yield* rows.fill(); rows.next !== undefined; rows.advance(), yield* rows.fill()) read(rows.next);
}

/** Reads the rows of a statement in order. Reads them in parts to save memory. */
export class Feed<R> {
  // oxlint-disable-next-line no-unused-private-class-members -- the rule misses its use in `yield`
  readonly #statement: Statement;
  #rows: readonly R[] = [];
  #at = 0;
  #isAtEnd = false;

  constructor(sql: string) {
    this.#statement = { sql, values: [], inParts: true };
  }

  /** Next row; undefined after the last row and before the first `fill`. */
  get next(): R | undefined {
    return this.#rows[this.#at];
  }

  /** Moves to the next row. */
  advance(): void {
    this.#at++;
  }

  /**
   * Reads the next part if all rows of the current part are used. While `isUsedUp`, callers must call `fill` before
   * they read `next`.
   */
  *fill(): Query<void> {
    if (!this.isUsedUp) return;
    const statement = this.#statement;
    this.#rows = (yield statement) as readonly R[];
    this.#at = 0;
    this.#isAtEnd = this.#rows.length === 0;
  }

  /** True if callers must call `fill` before they read `next`. */
  get isUsedUp(): boolean {
    return !this.#isAtEnd && this.#at >= this.#rows.length;
  }
}
