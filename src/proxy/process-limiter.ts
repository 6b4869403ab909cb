import type { LimitMet, Limits, LimitStanding } from "../core/limits.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { HeaderList } from "../ports/exchange.ts";
import type { Authenticated } from "./authenticate.ts";
import { limitHeaders, unlimited, type Entry, type Limiter, type Place } from "./limits.ts";
import { SlidingWindow } from "./sliding-window.ts";

/** Of a key or a team. */
interface Meter {
  readonly requests: SlidingWindow;
  readonly tokens: SlidingWindow;
  running: number;
}

/** Who limits a request, by the limits in force when it came. */
interface Party {
  readonly scope: string;
  readonly limits: Limits;
  readonly meter: Meter;
}

const free: Entry = { ok: true, place: unlimited };

/** Meters in memory before those that nobody uses are looked for. */
const metersBeforeSweep = 1024;

/** Counts in this process, over any 60 seconds by the monotonic clock. */
export function createLimiter({ clock }: { readonly clock: Clock }): Limiter {
  const meters = new Map<string, Meter>();
  let sweepAt = metersBeforeSweep;

  const sweep = (now: number) => {
    for (const [id, { requests, tokens, running }] of meters) {
      if (running === 0 && requests.sum(now) === 0 && tokens.sum(now) === 0) meters.delete(id);
    }
    sweepAt = Math.max(metersBeforeSweep, meters.size * 2);
  };

  const meterOf = (id: string, now: number): Meter => {
    const known = meters.get(id);
    if (known !== undefined) return known;
    if (meters.size >= sweepAt) sweep(now);
    const meter = { requests: new SlidingWindow(), tokens: new SlidingWindow(), running: 0 };
    meters.set(id, meter);
    return meter;
  };

  const partiesOf = ({ key, team }: Authenticated, now: number): Party[] => {
    const parties: Party[] = [];
    // By its id: a meter belongs to the key, whatever secret it is used with.
    if (key !== null && isLimited(key.limits)) {
      parties.push({ scope: `key:${key.name}`, limits: key.limits, meter: meterOf(`key:${key.id}`, now) });
    }
    if (team !== null && isLimited(team.limits)) {
      const scope = `team:${team.name}`;
      parties.push({ scope, limits: team.limits, meter: meterOf(scope, now) });
    }
    return parties;
  };

  return {
    enter(who) {
      if (!isLimited(who.key?.limits) && !isLimited(who.team?.limits)) return free;
      const now = clock.monotonic();
      const parties = partiesOf(who, now);
      const refusal = entryRefusal(parties, now);
      if (refusal !== null) return { ok: false, refusal, headers: headersOf(parties, now) };
      return { ok: true, place: new LimitedPlace(parties, clock, now) };
    },

    standing(who) {
      const now = clock.monotonic();
      return partiesOf(who, now).flatMap((party) => standingOf(party, now));
    },
  };
}

class LimitedPlace implements Place {
  readonly countsTokens: boolean;
  readonly #parties: readonly Party[];
  readonly #clock: Clock;
  readonly #second: number;
  #reserved: { readonly second: number; readonly amounts: readonly number[] } | null = null;
  #cancelled = false;
  #left = false;

  constructor(parties: readonly Party[], clock: Clock, now: number) {
    this.#parties = parties;
    this.#clock = clock;
    this.countsTokens = parties.some(({ limits }) => limits.tpm !== null);
    this.#second = Math.floor(now / 1000);
    for (const { meter } of parties) {
      meter.requests.add(1, now);
      meter.running++;
    }
  }

  reserve(tokens: number): boolean {
    const now = this.#clock.monotonic();
    const fits = this.#parties.every(({ limits, meter }) => limits.tpm === null || meter.tokens.sum(now) + tokens <= limits.tpm);
    if (fits) this.#put(this.#parties.map(() => tokens), now);
    return fits;
  }

  reserveOrRefuse(tokens: number, exact: boolean): Refusal | null {
    const now = this.#clock.monotonic();
    const amounts = this.#parties.map(({ limits }) => (exact ? tokens : Math.min(tokens, limits.tpm ?? tokens)));
    const met = this.#parties.flatMap(({ scope, limits, meter }, index): Met[] => {
      const needed = amounts[index] ?? tokens;
      if (limits.tpm === null || meter.tokens.sum(now) + needed <= limits.tpm) return [];
      const neverFits = needed > limits.tpm;
      const waitMs = neverFits ? minuteMs : meter.tokens.msUntilAtMost(limits.tpm - needed, now);
      return [{ scope, kind: "tpm", limit: limits.tpm, needed: neverFits ? needed : null, waitMs }];
    });
    if (met.length === 0) this.#put(amounts, now);
    return refusalOf(met);
  }

  /** What turns out to be less is given back where it was taken; what turns out to be more counts from now on. */
  settleTokens(used: number | null): void {
    const reserved = this.#reserved;
    this.#reserved = null;
    if (reserved === null || used === null) return;
    const now = this.#clock.monotonic();
    this.#parties.forEach(({ meter }, index) => {
      const difference = used - (reserved.amounts[index] ?? used);
      if (difference > 0) meter.tokens.add(difference, now);
      else meter.tokens.correct(reserved.second, difference, now);
    });
  }

  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    const now = this.#clock.monotonic();
    for (const { meter } of this.#parties) meter.requests.correct(this.#second, -1, now);
  }

  leave(): void {
    if (this.#left) return;
    this.#left = true;
    for (const { meter } of this.#parties) meter.running--;
  }

  headers(): HeaderList {
    return headersOf(this.#parties, this.#clock.monotonic());
  }

  #put(amounts: readonly number[], now: number): void {
    this.#parties.forEach(({ meter }, index) => meter.tokens.add(amounts[index] ?? 0, now));
    this.#reserved = { second: Math.floor(now / 1000), amounts };
  }
}

const minuteMs = 60_000;

function isLimited(limits: Limits | undefined): boolean {
  return limits !== undefined && (limits.rpm !== null || limits.tpm !== null || limits.parallel !== null);
}

interface Met extends LimitMet {
  /** Until it would be admitted, as far as that is known. */
  readonly waitMs: number;
}

function entryRefusal(parties: readonly Party[], now: number): Refusal | null {
  const met: Met[] = [];
  for (const { scope, limits, meter } of parties) {
    if (limits.rpm !== null && meter.requests.sum(now) >= limits.rpm) {
      met.push({ scope, kind: "rpm", limit: limits.rpm, needed: null, waitMs: meter.requests.msUntilAtMost(limits.rpm - 1, now) });
    }
    if (limits.parallel !== null && meter.running >= limits.parallel) {
      met.push({ scope, kind: "parallel", limit: limits.parallel, needed: null, waitMs: 0 });
    }
  }
  return refusalOf(met);
}

/** Of the limits that are met the one that lasts longest. */
function refusalOf(all: readonly Met[]): Refusal | null {
  const longest = all.reduce<Met | null>((worst, next) => (worst === null || next.waitMs > worst.waitMs ? next : worst), null);
  if (longest === null) return null;
  const { waitMs, ...met } = longest;
  const code = met.kind === "parallel" ? "concurrency_limit" : "rate_limit_exceeded";
  return { code, met, retryAfterSeconds: Math.max(1, Math.ceil(waitMs / 1000)) };
}

function standingOf({ scope, limits, meter }: Party, now: number): LimitStanding[] {
  const standing = (kind: keyof Limits, used: number, resetsInMs: number | null): LimitStanding[] => {
    const limit = limits[kind];
    return limit === null ? [] : [{ scope, kind, limit, remaining: Math.max(0, limit - used), resetsInMs }];
  };
  return [
    ...standing("rpm", meter.requests.sum(now), meter.requests.msUntilAtMost(0, now)),
    ...standing("tpm", meter.tokens.sum(now), meter.tokens.msUntilAtMost(0, now)),
    ...standing("parallel", meter.running, null),
  ];
}

function headersOf(parties: readonly Party[], now: number): HeaderList {
  return limitHeaders(parties.flatMap((party) => standingOf(party, now)));
}
