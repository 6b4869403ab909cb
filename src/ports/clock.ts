/** Source of time. Tests and the simulator pass their own. */
export interface Clock {
  /** Returns milliseconds since 1970 UTC. May jump when the machine's clock is set. */
  now(): number;
  /** Returns milliseconds with fractions since an arbitrary origin, for durations. Never goes backwards. */
  monotonic(): number;
  /** Calls back once after `ms` milliseconds. The timer does not keep the process running. */
  after(ms: number, callback: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}
