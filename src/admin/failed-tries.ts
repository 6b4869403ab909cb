import { isIPv6 } from "node:net";
import type { Clock } from "../ports/clock.ts";

/** Addresses that are remembered; beyond these the one that failed longest ago is forgotten. */
const addressesMax = 10_000;
/** Tries of one address that wait at the same time; more are turned away unseen. */
const waitingMax = 20;
/** Slips that cost nothing. */
const freeTries = 3;
const firstWaitMs = 250;
const longestWaitMs = 8_000;
/** So long after its last failure an address begins anew. */
const forgottenAfterMs = 15 * 60_000;

interface Tries {
  failures: number;
  waiting: number;
  /** When the next try may be looked at, on the clock's monotonic scale. */
  freeAt: number;
  lastAt: number;
}

export type Turn =
  | { readonly ok: true; wait(): Promise<void> }
  | { readonly ok: false; readonly retryAfterSeconds: number };

/**
 * Failed tries by address: the more there were, the longer the next one takes, one after the other. A try counts as
 * failed from its beginning, so that many at once are no way around, until it is known to be good.
 */
export class FailedTries {
  readonly #clock: Clock;
  /** In the order of the last try. */
  readonly #addresses = new Map<string, Tries>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a try from this address, and says when it may be looked at. */
  turnOf(address: string): Turn {
    const tries = this.#remember(address);
    const now = this.#clock.monotonic();
    const waitMs = waitMsAfter(tries.failures);
    const start = Math.max(now, tries.freeAt);
    if (waitMs > 0 && tries.waiting >= waitingMax) return { ok: false, retryAfterSeconds: Math.max(1, Math.ceil((start - now) / 1000)) };
    tries.failures++;
    tries.lastAt = now;
    if (waitMs === 0) return { ok: true, wait: async () => {} };
    tries.waiting++;
    tries.freeAt = start + waitMs;
    const untilMs = tries.freeAt - now;
    const wait = async () => {
      await new Promise<void>((resolve) => this.#clock.after(untilMs, resolve));
      tries.waiting--;
    };
    return { ok: true, wait };
  }

  /** The try was a good one after all. */
  takeBack(address: string): void {
    const tries = this.#addresses.get(groupOf(address));
    if (tries !== undefined) tries.failures = Math.max(0, tries.failures - 1);
  }

  /** How many addresses are remembered. */
  get size(): number {
    return this.#addresses.size;
  }

  #remember(address: string): Tries {
    const name = groupOf(address);
    const known = this.#addresses.get(name);
    const isOld = known !== undefined && known.waiting === 0 && this.#clock.monotonic() - known.lastAt > forgottenAfterMs;
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

/** Whoever has one IPv6 address has its whole /64. */
function groupOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, "").replace(/%.*$/, "");
  if (!isIPv6(plain)) return plain;
  const [head = "", tail] = plain.split("::");
  const before = head === "" ? [] : head.split(":");
  const after = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  return [...before, ...Array.from({ length: zeros }, () => "0"), ...after].slice(0, 4).join(":");
}
