import type { Clock, Timer } from "../src/ports/clock.ts";
import { digest, randomFrom, type Random } from "../src/sandbox/random.ts";

/** Whose an event is: the number of a run of the proxy, or the world outside, which no crash ends. */
export type Owner = number;
export const outside: Owner = 0;

interface Event {
  readonly due: number;
  readonly owner: Owner;
  readonly label: string;
  readonly run: () => void;
}

/**
 * Owns time, chance and the order in which things happen. Nothing happens by itself: everything that takes time is an
 * event, one step runs one event with all that follows from it at once, and of the events that are due at an instant
 * chance picks the next. So a run follows from its seed alone.
 */
export class World {
  readonly chance: Chance;
  /** Trace of the steps; null where none is wanted. */
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

  /** Milliseconds since the beginning; never steps. */
  get elapsedMs(): number {
    return this.#elapsedMs;
  }

  /** Time that wall clocks show. */
  get now(): number {
    return this.#wallMs + this.#elapsedMs;
  }

  /** Sets the wall clock, forwards or back, as an administrator would. */
  setWall(byMs: number): void {
    this.#wallMs += byMs;
  }

  after(owner: Owner, ms: number, label: string, run: () => void): Timer {
    const event = { due: this.#elapsedMs + Math.max(ms, 0), owner, label, run };
    if (!this.#ended.has(owner)) this.#events.push(event);
    return {
      cancel: () => {
        const place = this.#events.indexOf(event);
        if (place >= 0) this.#take(place);
      },
    };
  }

  /** Acts as `after`, in a random time: mostly at once, sometimes long. */
  soon(owner: Owner, label: string, run: () => void): void {
    this.after(owner, this.chance.delayMs(), label, run);
  }

  /** Answers a call of a port: it is carried out at one moment, and its answer comes at another. */
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

  /** True if an owner has anything to come. */
  hasEvents(owner: Owner): boolean {
    return this.#events.some((event) => event.owner === owner);
  }

  /** Nothing of this owner ever goes on: what a crash does to a process. */
  drop(owner: Owner): void {
    this.#ended.add(owner);
    this.#events = this.#events.filter((event) => event.owner !== owner);
  }

  /** Runs the next event, and all that follows from it before anything else can happen. False where nothing is to come. */
  async step(): Promise<boolean> {
    const event = this.#next();
    if (event === undefined) return false;
    this.steps++;
    this.note(event.label);
    event.run();
    await quiescence();
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
    const place = this.#events.findIndex(({ due }) => due <= this.#elapsedMs && picked-- === 0);
    return this.#take(place);
  }

  #take(place: number): Event | undefined {
    const taken = this.#events[place];
    const last = this.#events.pop();
    if (last !== undefined && last !== taken) this.#events[place] = last;
    return taken;
  }
}

/** Resolves when nothing can go on by itself: a tick comes when every promise has been followed to its end. */
function quiescence(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

/** Everything that is left to chance. */
export class Chance {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  next(): number {
    return this.#random();
  }

  /** A whole number from 0, below `end`. */
  below(end: number): number {
    return end <= 1 ? 0 : Math.floor(this.#random() * end);
  }

  /** From `least` to `most`, both included. */
  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  happens(probability: number): boolean {
    return probability > 0 && this.#random() < probability;
  }

  pick<T>(items: readonly [T, ...T[]]): T {
    return items[this.below(items.length)] ?? items[0];
  }

  /** Mostly none, sometimes some, seldom much. */
  delayMs(): number {
    const roll = this.#random();
    if (roll < 0.75) return 0;
    if (roll < 0.95) return this.between(1, 8);
    return roll < 0.995 ? this.between(9, 300) : this.between(301, 3_000);
  }
}
