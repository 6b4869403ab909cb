import { isIPv6 } from "node:net";
import type { Clock } from "../ports/clock.ts";

/** Largest number of remembered addresses. Beyond it, the address with the oldest last failure is forgotten. */
const addressesMax = 10_000;
/** Largest number of failed tries of one address that wait at the same time. Further ones are answered at once. */
const waitingMax = 20;
/** Largest number of failed tries of all addresses that wait at the same time. Each of them keeps a request open. */
const waitingInAllMax = 1_000;
/** Number of failed tries that are not delayed. */
const freeTries = 3;
const firstWaitMs = 250;
const longestWaitMs = 8_000;
/** Time from the last failure of an address until it is forgotten, in milliseconds. */
const forgottenAfterMs = 15 * 60_000;

interface Tries {
  failures: number;
  waiting: number;
  /** Earliest time at which the next try is answered, on the clock's monotonic scale. */
  freeAt: number;
  lastAt: number;
}

/** Result of a delay. It is not `ok` if too many tries were already waiting, so that this one did not wait. */
export type Slowed = { readonly ok: true } | { readonly ok: false; readonly retryAfterSeconds: number };

/**
 * Counts failed tries by address. Each failure delays the answer to the next one, and they are answered one after the other.
 * Successful tries are never delayed, so no one can lock others out by failing from a shared address.
 */
export class FailedTries {
  readonly #clock: Clock;
  /** Tries by address, in the order of the last try. */
  readonly #addresses = new Map<string, Tries>();
  #waiting = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a failed try from this address. Resolves when the try may be answered. */
  async slow(address: string): Promise<Slowed> {
    const tries = this.#remember(address);
    const now = this.#clock.monotonic();
    const waitMs = waitMsAfter(tries.failures);
    const start = Math.max(now, tries.freeAt);
    if (waitMs > 0 && (tries.waiting >= waitingMax || this.#waiting >= waitingInAllMax)) {
      return { ok: false, retryAfterSeconds: Math.max(1, Math.ceil((start - now) / 1000)) };
    }
    tries.failures++;
    tries.lastAt = now;
    if (waitMs === 0) return { ok: true };
    tries.waiting++;
    this.#waiting++;
    tries.freeAt = start + waitMs;
    const untilMs = tries.freeAt - now;
    await new Promise<void>((resolve) => this.#clock.after(untilMs, resolve));
    tries.waiting--;
    this.#waiting--;
    return { ok: true };
  }

  /** Number of remembered addresses. */
  get size(): number {
    return this.#addresses.size;
  }

  #remember(address: string): Tries {
    const name = groupOf(address);
    const known = this.#addresses.get(name);
    const isOld =
      known !== undefined && known.waiting === 0 && this.#clock.monotonic() - known.lastAt > forgottenAfterMs;
    const tries = known === undefined || isOld ? { failures: 0, waiting: 0, freeAt: 0, lastAt: 0 } : known;
    this.#addresses.delete(name);
    this.#addresses.set(name, tries);
    const [oldest] = this.#addresses.keys();
    if (this.#addresses.size > addressesMax && oldest !== undefined) this.#addresses.delete(oldest);
    return tries;
  }
}

/** Returns the delay after this number of failures, in milliseconds: 0, 0, 0, 250, 500, … 8,000. */
export function waitMsAfter(failures: number): number {
  return failures < freeTries ? 0 : Math.min(firstWaitMs * 2 ** (failures - freeTries), longestWaitMs);
}

/** Returns the /64 network of an IPv6 address, since its owner controls all of it. Returns an IPv4 address as it is. */
function groupOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, "").replace(/%.*$/, "");
  if (!isIPv6(plain)) return plain;
  const [head = "", tail] = plain.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array.from({ length: zeros }, () => "0"), ...after].slice(0, 4).join(":");
}
