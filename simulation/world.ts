import type { Clock, Timer } from "../src/ports/clock.ts";
import { digest, randomFrom, type Random } from "../src/sandbox/random.ts";

/** Owner of an event: the number of a run of the proxy, or `outside` for everything that survives a crash. */
export type Owner = number;
export const outside: Owner = 0;

interface Event {
  readonly due: number;
  readonly owner: Owner;
  readonly label: string;
  readonly run: () => void;
}

/**
 * Owns the time, the randomness and the order of events. Everything that takes time is an event. A step runs one event
 * and everything that follows from it without waiting. If several events are due, the seed decides which is next.
 */
export class World {
  readonly chance: Chance;
  /** Trace of the steps; null unless it is requested. */
  readonly trace: string[] | null;
  steps = 0;
  #elapsedMs = 0;
  #wallMs: number;
  #events: Event[] = [];
  readonly #ended = new Set<Owner>();

  constructor(seed: string, options: { readonly startsAt: number; readonly traced: boolean }) {
    this.chance = new Chance(randomFrom(digest(seed)));
    this.trace = options.traced ? [] : null;
    this.#wallMs = options.startsAt;
  }

  /** Milliseconds since the beginning. Setting the wall clock does not change it. */
  get elapsedMs(): number {
    return this.#elapsedMs;
  }

  /** Time on the wall clock, in Unix milliseconds. */
  get now(): number {
    return this.#wallMs + this.#elapsedMs;
  }

  /** Sets the wall clock forward or back, as an administrator would. */
  shiftWallClock(byMs: number): void {
    this.#wallMs += byMs;
  }

  after(owner: Owner, ms: number, label: string, run: () => void): Timer {
    const event = { due: this.#elapsedMs + Math.max(ms, 0), owner, label, run };
    if (!this.#ended.has(owner)) this.#events.push(event);
    return {
      cancel: () => {
        const index = this.#events.indexOf(event);
        if (index >= 0) this.#remove(index);
      },
    };
  }

  /** Acts as `after`, with a random delay: usually none, sometimes a long one. */
  soon(owner: Owner, label: string, run: () => void): void {
    this.after(owner, this.chance.delayMs(), label, run);
  }

  /** Executes a call of a port in one event, and answers the call in a later event. */
  call<T>(owner: Owner, label: string, work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.soon(owner, label, () => {
        work().then(
          (answer) => this.soon(owner, `${label} is answered`, () => resolve(answer)),
          (error: unknown) => this.soon(owner, `${label} fails`, () => reject(error as Error)),
        );
      });
    });
  }

  /** Discards all present and future events of this owner, as a crash of a process does. */
  drop(owner: Owner): void {
    this.#ended.add(owner);
    this.#events = this.#events.filter((event) => event.owner !== owner);
  }

  /** Runs the next event and everything that follows from it without waiting. Returns false if no event is left. */
  async step(): Promise<boolean> {
    const event = this.#next();
    if (event === undefined) return false;
    this.steps++;
    this.note(event.label);
    event.run();
    await promisesSettled();
    return true;
  }

  note(text: string): void {
    this.trace?.push(`${this.steps} +${this.#elapsedMs} ms  ${text}`);
  }

  clock(owner: Owner): Clock {
    return {
      now: () => this.now,
      monotonic: () => this.#elapsedMs,
      after: (ms, callback) => this.after(owner, ms, "a timer fires", callback),
    };
  }

  #next(): Event | undefined {
    let ready = 0;
    let first = Number.POSITIVE_INFINITY;
    for (const { due } of this.#events) {
      if (due < first) first = due;
    }
    if (first > this.#elapsedMs) this.#elapsedMs = first;
    if (this.#events.length === 0) return undefined;
    for (const { due } of this.#events) if (due <= this.#elapsedMs) ready++;
    let picked = this.chance.below(ready);
    const index = this.#events.findIndex(({ due }) => due <= this.#elapsedMs && picked-- === 0);
    return this.#remove(index);
  }

  #remove(index: number): Event | undefined {
    const removed = this.#events[index];
    const last = this.#events.pop();
    if (last !== undefined && last !== removed) this.#events[index] = last;
    return removed;
  }
}

/** Resolves when only another event can continue the run. Node runs this tick after all reactions of promises. */
function promisesSettled(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

/** Random choices, all from one generator. */
export class Chance {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  next(): number {
    return this.#random();
  }

  /** Returns a whole number from 0 to `end` − 1. */
  below(end: number): number {
    return end <= 1 ? 0 : Math.floor(this.#random() * end);
  }

  /** Returns a whole number from `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  happens(probability: number): boolean {
    return probability > 0 && this.#random() < probability;
  }

  pick<T>(items: readonly [T, ...T[]]): T {
    return items[this.below(items.length)] ?? items[0];
  }

  /** Returns a delay in milliseconds: usually 0, sometimes a few, rarely seconds. */
  delayMs(): number {
    const roll = this.#random();
    if (roll < 0.75) return 0;
    if (roll < 0.95) return this.between(1, 8);
    return roll < 0.995 ? this.between(9, 300) : this.between(301, 3_000);
  }
}
