import {
  freeRpm,
  noRateLimits,
  nothingUsed,
  sumOfUse,
  tightestRateLimit,
  type ExceededRateLimit,
  type RateLimits,
  type RateLimitStatus,
  type RateLimitUse,
} from "../core/rate-limits.ts";
import { minuteMs } from "../core/time.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { Exchange, HeaderList } from "../ports/exchange.ts";
import type { Authenticated } from "./authenticate.ts";
import { SlidingWindow } from "./sliding-window.ts";

/**
 * Applies the limits of keys and teams. Checks the limits and counts the request in one step without waiting. Parallel
 * requests of a proxy therefore cannot exceed a limit. Returns promises if the counters are in another process.
 */
export interface RateLimiter {
  /**
   * Counts a request and takes a slot, for both the key and its team. If either has reached a limit, refuses the
   * request and counts it for neither. `isFree`: true for a request that costs nothing. It takes a slot, but has a rate
   * of its own.
   */
  enter(who: Authenticated, isFree?: boolean): Entry | Promise<Entry>;
  /** Returns the state of each limit that applies to the caller: first the key's limits, then the team's. */
  standing(who: Authenticated): readonly RateLimitStatus[];
}

export type Entry =
  | { readonly ok: true; readonly slot: Slot }
  | { readonly ok: false; readonly refusal: Refusal; readonly headers: HeaderList };

/** Slot of a running request. */
export interface Slot {
  /** True if a token limit applies to the request. */
  readonly countsTokens: boolean;
  /** Reserves tokens under every limit that applies. Returns false, and reserves nothing, if they do not fit. */
  reserve(tokens: number): boolean | Promise<boolean>;
  /**
   * Reserves tokens. Returns a refusal if they do not fit; null otherwise. `exact`: true if `tokens` is a count, false
   * if it is an upper bound. A count above a limit never fits. A bound above a limit is reduced to the limit, because
   * the request may be smaller.
   */
  reserveOrRefuse(tokens: number, exact: boolean): Refusal | null | Promise<Refusal | null>;
  /** Replaces the reserved tokens by the used ones. Null keeps the reserved ones. Only the first call has an effect. */
  settleTokens(used: number | null): void;
  /** Subtracts the request from the counters, because a limit refused it. */
  cancel(): void;
  /** Releases the slot; only the first call has an effect. */
  leave(): void;
  /** Returns headers with the tighter limit of key and team, under OpenAI's names. */
  headers(): HeaderList;
}

/** Slot that all requests without limits share. */
export const unlimited: Slot = {
  countsTokens: false,
  reserve: () => true,
  reserveOrRefuse: () => null,
  settleTokens() {},
  cancel() {},
  leave() {},
  headers: () => [],
};

/** Counts a request against the limits of its key and team. Adds headers that state these limits to the answer. */
export async function enter(
  limiter: Pick<RateLimiter, "enter">,
  exchange: Exchange,
  who: Authenticated,
): Promise<Entry> {
  const entry = await limiter.enter(who);
  if (!entry.ok) exchange.replaceHeaders(headerPrefix, () => entry.headers);
  else if (entry.slot !== unlimited) exchange.replaceHeaders(headerPrefix, () => entry.slot.headers());
  return entry;
}

/**
 * Reserves the tokens of a request by their upper bound. Counts the tokens only if the bound does not fit. Returns a
 * refusal if the tokens still do not fit; null otherwise. A refused request is subtracted from the counters, but keeps
 * its slot until `leave`. `count` returns undefined if the prompt cannot be counted. `isExact`: false if `count` returns
 * an upper bound, because the model's tokenizer is not published.
 */
export async function reserveTokens(
  slot: Slot,
  bound: number,
  count: () => Promise<number | undefined>,
  isExact = true,
): Promise<Refusal | null> {
  if (await slot.reserve(bound)) return null;
  const counted = await count();
  const refusal =
    counted === undefined
      ? await slot.reserveOrRefuse(bound, false)
      : await slot.reserveOrRefuse(Math.min(counted, bound), isExact);
  if (refusal !== null) slot.cancel();
  return refusal;
}

const headerPrefix = "x-ratelimit-";
const headerNames = { rpm: "requests", tpm: "tokens" } as const;

/** Returns headers with the tighter limit of a key and its team, under OpenAI's names. */
export function limitHeaders(standings: readonly RateLimitStatus[]): HeaderList {
  return (["rpm", "tpm"] as const).flatMap((kind) => {
    const tightest = tightestRateLimit(kind, standings);
    if (tightest === undefined) return [];
    const name = headerNames[kind];
    return [
      [`${headerPrefix}limit-${name}`, String(tightest.limit)],
      [`${headerPrefix}remaining-${name}`, String(tightest.remaining)],
      [`${headerPrefix}reset-${name}`, spanText(tightest.resetsInMs ?? 0)],
    ] as const;
  });
}

/** Formats a time as OpenAI does, in whole seconds rounded up: "0s", "17s", "1m1s". */
function spanText(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}

/** Usage of a key or a team. */
interface UsageCounters {
  readonly requests: SlidingWindow;
  readonly tokens: SlidingWindow;
  running: number;
}

/** Key or team that limits a request, with the limits in force when the request arrived. */
interface Party {
  readonly scope: string;
  readonly limits: RateLimits;
  readonly counters: UsageCounters;
  /** Limit of requests per minute under which the request counts; null for none. */
  readonly rate: "rpm" | "free_rpm" | null;
  /** Returns the latest usage that peers reported. */
  readonly peers: () => RateLimitUse;
}

/** Returns the usage that peers reported for a key or team, by its id. */
export type PeerUsage = (id: string) => RateLimitUse;

/** Limiter that counts in this process and returns results without waiting. */
export interface ProcessRateLimiter extends RateLimiter {
  enter(who: Authenticated, isFree?: boolean): Entry;
  /** Returns the usage in this process by key or team id. Contains only limited keys and teams with any usage. */
  used(): Readonly<Record<string, RateLimitUse>>;
}

const unlimitedEntry: Entry = { ok: true, slot: unlimited };

/** Smallest number of usage counters in memory at which unused ones are removed. */
const countersBeforeSweep = 1024;

/**
 * Creates a limiter that counts over the last 60 seconds by the monotonic clock. Adds the usage that peers report about
 * once a second. All proxies together exceed a limit by at most the requests that they admit between two reports.
 */
export function createRateLimiter(deps: {
  readonly clock: Clock;
  readonly peerUsage?: PeerUsage | undefined;
}): ProcessRateLimiter {
  const { clock, peerUsage = () => nothingUsed } = deps;
  const countersById = new Map<string, UsageCounters>();
  let sweepAt = countersBeforeSweep;

  const sweep = (now: number) => {
    for (const [id, { requests, tokens, running }] of countersById) {
      if (running === 0 && requests.sum(now) === 0 && tokens.sum(now) === 0) countersById.delete(id);
    }
    sweepAt = Math.max(countersBeforeSweep, countersById.size * 2);
  };

  const countersOf = (id: string, now: number): UsageCounters => {
    const known = countersById.get(id);
    if (known !== undefined) return known;
    if (countersById.size >= sweepAt) sweep(now);
    const counters = { requests: new SlidingWindow(), tokens: new SlidingWindow(), running: 0 };
    countersById.set(id, counters);
    return counters;
  };

  const partyOf = (scope: string, limits: RateLimits, id: string, now: number, rate: Party["rate"] = "rpm"): Party => ({
    scope,
    limits,
    counters: countersOf(id, now),
    rate,
    peers: () => peerUsage(id),
  });

  const partiesOf = ({ key, team }: Authenticated, now: number): Party[] => {
    const parties: Party[] = [];
    // Uses the id, so that all secrets of a key share its counters.
    if (key !== null && isLimited(key.limits)) {
      parties.push(partyOf(`key:${key.name}`, key.limits, `key:${key.id}`, now));
    }
    if (team !== null && isLimited(team.limits)) {
      const scope = `team:${team.name}`;
      parties.push(partyOf(scope, team.limits, scope, now));
    }
    return parties;
  };

  /** Returns the slots that a free request needs, and the rate of free requests of the key. */
  const freePartiesOf = (who: Authenticated, now: number): Party[] => {
    const slots = partiesOf(who, now).flatMap((party): Party[] =>
      party.limits.parallel === null
        ? []
        : [{ ...party, limits: { ...noRateLimits, parallel: party.limits.parallel }, rate: null }],
    );
    if (who.key === null) return slots;
    const limits = { ...noRateLimits, rpm: freeRpm };
    return [partyOf(`key:${who.key.name}`, limits, `free:${who.key.id}`, now, "free_rpm"), ...slots];
  };

  return {
    enter(who, isFree = false) {
      if (isNeverRefused(who, isFree)) return unlimitedEntry;
      const now = clock.monotonic();
      const parties = isFree ? freePartiesOf(who, now) : partiesOf(who, now);
      const refusal = entryRefusal(parties, now);
      if (refusal !== null) return { ok: false, refusal, headers: headersOf(parties, now) };
      return { ok: true, slot: new RateLimitedSlot(parties, clock, now) };
    },

    standing(who) {
      const now = clock.monotonic();
      return partiesOf(who, now).flatMap((party) => standingOf(party, now));
    },

    used() {
      const now = clock.monotonic();
      const active = [...countersById].map(([id, counters]) => [id, usedHere(counters, now)] as const);
      return Object.fromEntries(
        active.filter(([, { requests, tokens, running }]) => requests > 0 || tokens > 0 || running > 0),
      );
    },
  };
}

class RateLimitedSlot implements Slot {
  readonly countsTokens: boolean;
  readonly #parties: readonly Party[];
  readonly #clock: Clock;
  /** Second in which the request counts. */
  #second = 0;
  #reserved: { readonly second: number; readonly amounts: readonly number[] } | null = null;
  #cancelled = false;
  #left = false;

  constructor(parties: readonly Party[], clock: Clock, now: number) {
    this.#parties = parties;
    this.#clock = clock;
    this.countsTokens = parties.some(({ limits }) => limits.tpm !== null);
    for (const { counters, rate } of parties) {
      if (rate !== null) this.#second = counters.requests.add(1, now);
      counters.running++;
    }
  }

  reserve(tokens: number): boolean {
    const now = this.#clock.monotonic();
    const fits = this.#parties.every(
      (party) => party.limits.tpm === null || usedOf(party, now).tokens + tokens <= party.limits.tpm,
    );
    if (fits)
      this.#recordReserved(
        this.#parties.map(() => tokens),
        now,
      );
    return fits;
  }

  reserveOrRefuse(tokens: number, exact: boolean): Refusal | null {
    const now = this.#clock.monotonic();
    const amounts = this.#parties.map(({ limits }) => (exact ? tokens : Math.min(tokens, limits.tpm ?? tokens)));
    const exceeded = this.#parties.flatMap((party, index): ExceededWithWait[] => {
      const { scope, limits, counters, peers } = party;
      const needed = amounts[index] ?? tokens;
      if (limits.tpm === null || usedOf(party, now).tokens + needed <= limits.tpm) return [];
      const neverFits = needed > limits.tpm;
      const waitMs = neverFits ? minuteMs : msUntilRoom(counters.tokens, peers().tokens, limits.tpm - needed, now);
      return [{ scope, kind: "tpm", limit: limits.tpm, needed: neverFits ? needed : null, waitMs }];
    });
    if (exceeded.length === 0) this.#recordReserved(amounts, now);
    return limitRefusal(exceeded);
  }

  /**
   * Subtracts unused tokens from the second in which they were reserved. Adds tokens beyond the reserved ones to the
   * current second.
   */
  settleTokens(used: number | null): void {
    const reserved = this.#reserved;
    this.#reserved = null;
    if (reserved === null || used === null) return;
    const now = this.#clock.monotonic();
    this.#parties.forEach(({ counters }, index) => {
      const difference = used - (reserved.amounts[index] ?? used);
      if (difference > 0) counters.tokens.add(difference, now);
      else counters.tokens.correct(reserved.second, difference, now);
    });
  }

  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    const now = this.#clock.monotonic();
    for (const { counters, rate } of this.#parties) if (rate !== null) counters.requests.correct(this.#second, -1, now);
  }

  leave(): void {
    if (this.#left) return;
    this.#left = true;
    for (const { counters } of this.#parties) counters.running--;
  }

  headers(): HeaderList {
    return headersOf(this.#parties, this.#clock.monotonic());
  }

  #recordReserved(amounts: readonly number[], now: number): void {
    this.#parties.forEach(({ counters }, index) => {
      this.#reserved = { second: counters.tokens.add(amounts[index] ?? 0, now), amounts };
    });
  }
}

/** Returns true if no limit can refuse a request. The limiter then need not count it. */
export function isNeverRefused({ key, team }: Authenticated, isFree: boolean): boolean {
  return isFree ? key === null : !isLimited(key?.limits) && !isLimited(team?.limits);
}

/** Returns true if any of the limits is set. */
export function isLimited(limits: RateLimits | undefined): boolean {
  return limits !== undefined && (limits.rpm !== null || limits.tpm !== null || limits.parallel !== null);
}

function usedHere({ requests, tokens, running }: UsageCounters, now: number): RateLimitUse {
  return { requests: requests.sum(now), tokens: tokens.sum(now), running };
}

function usedOf({ counters, peers }: Party, now: number): RateLimitUse {
  return sumOfUse(usedHere(counters, now), peers());
}

/**
 * Returns the milliseconds until the usage of this process and its peers falls to `most`. Peers report only a sum, so
 * their usage is assumed to leave the window evenly.
 */
function msUntilRoom(window: SlidingWindow, ofPeers: number, most: number, now: number): number {
  if (ofPeers <= most) return window.msUntilAtMost(most - ofPeers, now);
  return Math.max(window.msUntilAtMost(0, now), ((ofPeers - most) / ofPeers) * minuteMs);
}

interface ExceededWithWait extends ExceededRateLimit {
  /** Estimated time until the request would be admitted, in milliseconds. */
  readonly waitMs: number;
}

function entryRefusal(parties: readonly Party[], now: number): Refusal | null {
  const exceeded: ExceededWithWait[] = [];
  for (const party of parties) {
    const { scope, limits, counters, rate, peers } = party;
    const { requests, running } = usedOf(party, now);
    if (rate !== null && limits.rpm !== null && requests >= limits.rpm) {
      exceeded.push({
        scope,
        kind: rate,
        limit: limits.rpm,
        needed: null,
        waitMs: msUntilRoom(counters.requests, peers().requests, limits.rpm - 1, now),
      });
    }
    if (limits.parallel !== null && running >= limits.parallel) {
      exceeded.push({ scope, kind: "parallel", limit: limits.parallel, needed: null, waitMs: 0 });
    }
  }
  return limitRefusal(exceeded);
}

/** Returns the refusal for the limit with the longest wait; null if no limit is exceeded. */
function limitRefusal(all: readonly ExceededWithWait[]): Refusal | null {
  const longest = all.reduce<ExceededWithWait | null>(
    (worst, next) => (worst === null || next.waitMs > worst.waitMs ? next : worst),
    null,
  );
  if (longest === null) return null;
  const { waitMs, ...exceeded } = longest;
  const code = exceeded.kind === "parallel" ? "concurrency_limit" : "rate_limit_exceeded";
  return { code, exceeded, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) };
}

function standingOf(party: Party, now: number): RateLimitStatus[] {
  const { scope, limits, counters, peers } = party;
  const { requests, tokens, running } = usedOf(party, now);
  const standing = (kind: keyof RateLimits, used: number, resetsInMs: number | null): RateLimitStatus[] => {
    const limit = limits[kind];
    return limit === null ? [] : [{ scope, kind, limit, remaining: Math.max(0, limit - used), resetsInMs }];
  };
  return [
    ...standing("rpm", requests, msUntilRoom(counters.requests, peers().requests, 0, now)),
    ...standing("tpm", tokens, msUntilRoom(counters.tokens, peers().tokens, 0, now)),
    ...standing("parallel", running, null),
  ];
}

function headersOf(parties: readonly Party[], now: number): HeaderList {
  return limitHeaders(parties.flatMap((party) => standingOf(party, now)));
}
