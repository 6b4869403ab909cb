/** Sixty finished seconds and the running one. */
const slots = 61;

/**
 * An amount over the last minute, kept by seconds of a clock that never steps back: 488 bytes, whatever the amount. What
 * is added leaves 60 to 61 seconds later, so the sum is never less than that of the last 60 seconds. Instants are
 * milliseconds and must not decrease from call to call.
 */
export class SlidingWindow {
  readonly #amounts = new Float64Array(slots);
  #second = 0;
  #sum = 0;

  sum(now: number): number {
    this.#pass(now);
    return this.#sum;
  }

  /** Returns the second in which it counts, for `correct`. */
  add(amount: number, now: number): number {
    this.#pass(now);
    this.#put(this.#second, amount);
    return this.#second;
  }

  /** Adds a difference to a second's amount, unless that second has left the window. */
  correct(second: number, difference: number, now: number): void {
    this.#pass(now);
    if (second > this.#second - slots) this.#put(second, difference);
  }

  /** Returns the milliseconds until the sum falls to `most` without further additions; 0 if it has. */
  msUntilAtMost(most: number, now: number): number {
    this.#pass(now);
    let left = this.#sum;
    for (let second = this.#second - slots + 1; second <= this.#second; second++) {
      if (left <= most) return Math.max(0, (second - 1 + slots) * 1000 - now);
      left -= this.#amounts[indexOf(second)] ?? 0;
    }
    return Math.max(0, (this.#second + slots) * 1000 - now);
  }

  #put(second: number, amount: number): void {
    const index = indexOf(second);
    this.#amounts[index] = (this.#amounts[index] ?? 0) + amount;
    this.#sum += amount;
  }

  #pass(now: number): void {
    const second = Math.floor(now / 1000);
    const from = Math.max(this.#second + 1, second - slots + 1);
    for (let each = from; each <= second; each++) {
      const index = indexOf(each);
      this.#sum -= this.#amounts[index] ?? 0;
      this.#amounts[index] = 0;
    }
    if (second > this.#second) this.#second = second;
  }
}

/** Returns an index from 0 for negative seconds too. */
function indexOf(second: number): number {
  return ((second % slots) + slots) % slots;
}
