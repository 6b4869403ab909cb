import { isIPv6 } from "node:net";
import { minuteMs } from "../core/time.ts";
import type { Clock } from "../ports/clock.ts";

/** Largest number of remembered addresses. Above it, the address whose latest attempt is the oldest is removed. */
const addressesMax = 10_000;
/** Largest number of failed attempts from one address that wait at the same time. Further ones are refused at once. */
const waitingMax = 20;
/** Largest number of failed attempts from all addresses that wait at the same time. Each of them keeps a request open. */
const waitingInAllMax = 1_000;
/** Number of failed attempts that are not delayed. */
const freeTries = 3;
const firstWaitMs = 250;
const longestWaitMs = 8_000;
/** Time for which an address is remembered after its last failure, in milliseconds. */
const forgottenAfterMs = 15 * minuteMs;

interface Attempts {
  failures: number;
  waiting: number;
  /** Time at which the latest attempt is answered, on the clock's monotonic scale. The next delay starts no earlier. */
  freeAt: number;
  lastAt: number;
}

/** Result of a delay. `ok` is false if the attempt was not delayed, because too many other attempts were waiting. */
type Delayed = { readonly ok: true } | { readonly ok: false; readonly retryAfterSeconds: number };

/**
 * Counts failed attempts by address. After three failures, the answer to each further failure from the same address is
 * delayed. Delayed failures from one address are answered one after the other. Successful attempts are never delayed,
 * so no one can lock others out by failing from a shared address.
 */
export class FailedAttempts {
  readonly #clock: Clock;
  /** Attempts by address, in order of the last attempt. */
  readonly #addresses = new Map<string, Attempts>();
  #waiting = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a failed attempt from this address. Resolves when the attempt may be answered. */
  async delay(address: string): Promise<Delayed> {
    const attempts = this.#remember(address);
    const now = this.#clock.monotonic();
    const waitMs = waitMsAfter(attempts.failures);
    const start = Math.max(now, attempts.freeAt);
    if (waitMs > 0 && (attempts.waiting >= waitingMax || this.#waiting >= waitingInAllMax)) {
      return { ok: false, retryAfterSeconds: Math.max(1, Math.ceil((start - now) / 1000)) };
    }
    attempts.failures++;
    attempts.lastAt = now;
    if (waitMs === 0) return { ok: true };
    attempts.waiting++;
    this.#waiting++;
    attempts.freeAt = start + waitMs;
    const untilMs = attempts.freeAt - now;
    await new Promise<void>((resolve) => this.#clock.after(untilMs, resolve));
    attempts.waiting--;
    this.#waiting--;
    return { ok: true };
  }

  /** Number of remembered addresses. */
  get size(): number {
    return this.#addresses.size;
  }

  #remember(address: string): Attempts {
    const name = groupOf(address);
    const known = this.#addresses.get(name);
    const isOld =
      known !== undefined && known.waiting === 0 && this.#clock.monotonic() - known.lastAt > forgottenAfterMs;
    const attempts = known === undefined || isOld ? { failures: 0, waiting: 0, freeAt: 0, lastAt: 0 } : known;
    this.#addresses.delete(name);
    this.#addresses.set(name, attempts);
    const [oldest] = this.#addresses.keys();
    if (this.#addresses.size > addressesMax && oldest !== undefined) this.#addresses.delete(oldest);
    return attempts;
  }
}

/** Returns the delay after this number of failures, in milliseconds: 0, 0, 0, 250, 500, … 8,000. */
export function waitMsAfter(failures: number): number {
  return failures < freeTries ? 0 : Math.min(firstWaitMs * 2 ** (failures - freeTries), longestWaitMs);
}

/** Returns the /64 network of an IPv6 address, because one owner controls all of it. Returns an IPv4 address unchanged. */
function groupOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, "").replace(/%.*$/, "");
  if (!isIPv6(plain)) return plain;
  const [head = "", tail] = plain.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array.from({ length: zeros }, () => "0"), ...after].slice(0, 4).join(":");
}
