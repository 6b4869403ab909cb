/**
 * Set of running items, such as requests, in no order. An array holds the items, because a Set would keep removed items
 * in memory: its replaced internal tables would still refer to them (measured: a quarter of all allocations). An item
 * keeps its index so that it can be removed in constant time.
 */
export class Running<T extends { index: number }> {
  readonly #items: T[] = [];

  add(item: T): void {
    item.index = this.#items.length;
    this.#items.push(item);
  }

  /** Removes an item and moves the last item to its index. */
  remove(item: T): void {
    const last = this.#items.pop();
    if (last === undefined || last === item) return;
    this.#items[item.index] = last;
    last.index = item.index;
  }

  /** Returns the items as a copy, because callers may remove items while they iterate. */
  all(): readonly T[] {
    return [...this.#items];
  }
}
