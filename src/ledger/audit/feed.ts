import type { Query, Statement } from "../queries/query.ts";

/** Rows of one statement in their order, of which memory holds some at a time. */
export class Feed<R> {
  // oxlint-disable-next-line no-unused-private-class-members -- what is yielded is not seen to be used
  readonly #statement: Statement;
  #rows: readonly R[] = [];
  #at = 0;
  #isOver = false;

  constructor(sql: string) {
    this.#statement = { sql, values: [], inParts: true };
  }

  /** The row that is next; undefined after the last one, and before the feed was filled. */
  get next(): R | undefined {
    return this.#rows[this.#at];
  }

  /** Goes on to the row after it. */
  advance(): void {
    this.#at++;
  }

  /** Reads more where all that was read is used up: to be called before each look at `next`, where `isUsedUp`. */
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
