/** The sixty seconds that are over, and the one that is not. */
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

  /** Answers the second that it counts in, for `correct`. */
  add(amount: number, now: number): number {
    this.#pass(now);
    this.#put(this.#second, amount);
    return this.#second;
  }

  /** Changes what was added in a second by a difference; of one that has left the window nothing remains to change. */
  correct(second: number, difference: number, now: number): void {
    this.#pass(now);
    if (second > this.#second - slots) this.#put(second, difference);
  }

  /** Milliseconds until the sum is at most so much by itself; 0 when it is already. */
  msUntilAtMost(most: number, now: number): number {
    this.#pass(now);
    let left = this.#sum;
    for (let second = this.#second - slots + 1; second <= this.#second; second++) {
      if (left <= most) return Math.max(0, (second - 1 + slots) * 1000 - now);
      left -= this.#amounts[placeOf(second)] ?? 0;
    }
    return Math.max(0, (this.#second + slots) * 1000 - now);
  }

  #put(second: number, amount: number): void {
    const place = placeOf(second);
    this.#amounts[place] = (this.#amounts[place] ?? 0) + amount;
    this.#sum += amount;
  }

  #pass(now: number): void {
    const second = Math.floor(now / 1000);
    const from = Math.max(this.#second + 1, second - slots + 1);
    for (let each = from; each <= second; each++) {
      const place = placeOf(each);
      this.#sum -= this.#amounts[place] ?? 0;
      this.#amounts[place] = 0;
    }
    if (second > this.#second) this.#second = second;
  }
}

/** Also for the seconds before the first: a remainder of a negative number is negative. */
function placeOf(second: number): number {
  return ((second % slots) + slots) % slots;
}
