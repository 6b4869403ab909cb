/** Time, handed in so that a test or the simulator can own it. */
export interface Clock {
  /** Milliseconds since 1970 UTC; may step when the machine's clock is set. */
  now(): number;
  /** Milliseconds with fractions from an arbitrary origin; never steps back. For durations. */
  monotonic(): number;
  /** Calls back once after `ms` milliseconds. A timer does not keep the process alive. */
  after(ms: number, callback: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}
