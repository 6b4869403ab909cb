/** Number of seconds whose amounts are kept: sixty past seconds and the current one. */
const secondsKept = 61;

/**
 * Sums amounts over the last minute. It keeps one amount for each second, in 488 bytes. An amount leaves the sum 60 to
 * 61 seconds after it was added. The sum is therefore never less than the total of the last 60 seconds. Times are
 * milliseconds of a clock that never steps back.
 */
export class SlidingWindow {
  readonly #amounts = new Float64Array(secondsKept);
  #second = 0;
  #sum = 0;

  sum(now: number): number {
    this.#advance(now);
    return this.#sum;
  }

  /** Adds an amount. Returns the second in which it counts, for `correct`. */
  add(amount: number, now: number): number {
    this.#advance(now);
    this.#addTo(this.#second, amount);
    return this.#second;
  }

  /** Adds a difference to a second's amount, unless that second has left the window. */
  correct(second: number, difference: number, now: number): void {
    this.#advance(now);
    if (second > this.#second - secondsKept) this.#addTo(second, difference);
  }

  /** Returns the milliseconds until the sum falls to `most` if nothing is added; 0 if it is not above `most` now. */
  msUntilAtMost(most: number, now: number): number {
    this.#advance(now);
    let left = this.#sum;
    for (let second = this.#second - secondsKept + 1; second <= this.#second; second++) {
      if (left <= most) return Math.max(0, (second - 1 + secondsKept) * 1000 - now);
      left -= this.#amounts[indexOf(second)] ?? 0;
    }
    return Math.max(0, (this.#second + secondsKept) * 1000 - now);
  }

  #addTo(second: number, amount: number): void {
    const index = indexOf(second);
    this.#amounts[index] = (this.#amounts[index] ?? 0) + amount;
    this.#sum += amount;
  }

  #advance(now: number): void {
    const second = Math.floor(now / 1000);
    const from = Math.max(this.#second + 1, second - secondsKept + 1);
    for (let each = from; each <= second; each++) {
      const index = indexOf(each);
      this.#sum -= this.#amounts[index] ?? 0;
      this.#amounts[index] = 0;
    }
    if (second > this.#second) this.#second = second;
  }
}

/** Returns the index of a second's amount. The index is never negative, even for a negative second. */
function indexOf(second: number): number {
  return ((second % secondsKept) + secondsKept) % secondsKept;
}
