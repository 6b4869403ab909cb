import { isIPv6 } from "node:net";
import type { Clock } from "../ports/clock.ts";

/** Addresses that are remembered; beyond these the one that failed longest ago is forgotten. */
const addressesMax = 10_000;
/** Failed tries of one address that wait at the same time; more are answered at once. */
const waitingMax = 20;
/** Failed tries of all addresses that wait at the same time: each keeps a request open. */
const waitingInAllMax = 1_000;
/** Failed tries that are not slowed. */
const freeTries = 3;
const firstWaitMs = 250;
const longestWaitMs = 8_000;
/** Time after its last failure until an address is forgotten, in milliseconds. */
const forgottenAfterMs = 15 * 60_000;

interface Tries {
  failures: number;
  waiting: number;
  /** Earliest time of the next try, on the clock's monotonic scale. */
  freeAt: number;
  lastAt: number;
}

/** `retryAfterSeconds`: too many wait already, so this one did not. */
export type Slowed = { readonly ok: true } | { readonly ok: false; readonly retryAfterSeconds: number };

/**
 * Failed tries by address: the more there were, the later the next one is answered, one after the other. What succeeds is
 * never delayed, so no one can lock others out by failing from a shared address.
 */
export class FailedTries {
  readonly #clock: Clock;
  /** In the order of the last try. */
  readonly #addresses = new Map<string, Tries>();
  #waiting = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a failed try from this address; resolves when it may be answered. */
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

/** 0, 0, 0, 250 ms, 500 ms, … 8 s. */
export function waitMsAfter(failures: number): number {
  return failures < freeTries ? 0 : Math.min(firstWaitMs * 2 ** (failures - freeTries), longestWaitMs);
}

/** The /64 of an IPv6 address, since its owner has all of it. */
function groupOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, "").replace(/%.*$/, "");
  if (!isIPv6(plain)) return plain;
  const [head = "", tail] = plain.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array.from({ length: zeros }, () => "0"), ...after].slice(0, 4).join(":");
}
