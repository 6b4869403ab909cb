import { claimJobs, type ClaimedJobs } from "../jobs/job-claims.ts";
import type { FleetGauges } from "../metrics/fleet-gauges.ts";
import type { LimitUse } from "../core/limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { Fleet, Peers, WorkDone } from "../ports/fleet.ts";
import type { Log } from "../ports/log.ts";
import type { PeerUsage } from "../proxy/process-limiter.ts";
import { peerUsageOf } from "../proxy/peer-usage.ts";

/** What `/readyz` says of the other proxies. */
export interface PeersStanding {
  readonly live: number;
  /** The content ids of their prices that are not this proxy's. */
  readonly otherCatalogues: readonly string[];
}

/** This proxy among those that share the ledger. Disposing of it releases its jobs, which are to be disposed of before. */
export interface FleetMember extends AsyncDisposable {
  readonly jobs: ClaimedJobs;
  /** Undefined where there are no others. */
  readonly peerUsage: PeerUsage | undefined;
  /** Counts work for the proxy that has the job. */
  did(work: keyof WorkDone): void;
  /** Begins to tell and to hear. `on`: what other proxies did, or may have left undone. */
  join(used: () => Readonly<Record<string, LimitUse>>, on: Readonly<Record<keyof WorkDone, () => void>>): void;
  /** Other prices are in force here. */
  pricesChanged(): void;
  /** Null where there are no others. */
  standing(): PeersStanding | null;
}

interface Prices {
  readonly current: { readonly digest: string };
  reload(): Promise<void>;
}

interface MemberParts {
  readonly fleet: Fleet | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly gauges: FleetGauges;
  readonly prices: Prices;
}

/** While prices are rolled out proxies differ for a moment; what lasts longer is told. Milliseconds. */
const differsQuietMs = 5_000;

const jobOf = { queued: "deliveries", tasks: "tasks" } as const;

export function fleetMember(parts: MemberParts): FleetMember {
  const { fleet, clock, prices } = parts;
  const jobs = claimJobs({ claims: fleet?.claims ?? null, clock, log: parts.log });
  if (fleet === null) {
    return {
      jobs,
      peerUsage: undefined,
      did() {},
      join() {},
      pricesChanged() {},
      standing: () => null,
      [Symbol.asyncDispose]: () => jobs[Symbol.asyncDispose](),
    };
  }
  const { peers } = fleet;
  const done = { posted: 0, queued: 0, tasks: 0 };
  const standing = () => standingOf(peers, prices);
  const seePrices = followPrices(parts, standing);
  const stops: (() => void)[] = [peers.onBeat(seePrices)];
  return {
    jobs,
    peerUsage: peerUsageOf(peers),
    did(work) {
      done[work]++;
      // Somebody waits for messages and tasks; what was spent is told of by the next beat.
      const isElsewhere = work === "posted" ? false : !jobs.of(jobOf[work]).isMine();
      if (isElsewhere) peers.beatNow();
    },
    join(used, on) {
      peers.tell(() => ({ catalogue: prices.current.digest, used: used(), done: { ...done } }));
      stops.push(peers.onBeat(followWork(peers, on)));
    },
    pricesChanged: () => peers.beatNow(),
    standing,
    async [Symbol.asyncDispose]() {
      for (const stop of stops) stop();
      await jobs[Symbol.asyncDispose]();
    },
  };
}

function standingOf(peers: Peers, prices: Prices): PeersStanding {
  const live = peers.live();
  const theirs = new Set(live.flatMap(({ news }) => (news === null ? [] : [news.catalogue])));
  theirs.delete(prices.current.digest);
  return { live: live.length, otherCatalogues: [...theirs].sort() };
}

/** Reads the price files again when a peer has others than were known, and says so where they stay apart. */
function followPrices({ clock, log, gauges, prices }: MemberParts, standing: () => PeersStanding): () => void {
  let known = new Set<string>();
  let apart: { readonly since: number; told: boolean } | null = null;
  return () => {
    const { live, otherCatalogues } = standing();
    gauges.heard(live, otherCatalogues.length > 0);
    if (otherCatalogues.some((digest) => !known.has(digest))) void prices.reload();
    const { digest } = prices.current;
    // With its own: a peer that still has what was in force here has nothing new.
    known = new Set([...otherCatalogues, digest]);
    if (otherCatalogues.length === 0) {
      if (apart?.told === true) log.info({ digest }, "all proxies of this ledger have the same prices again");
      apart = null;
      return;
    }
    apart ??= { since: clock.monotonic(), told: false };
    if (apart.told || clock.monotonic() - apart.since < differsQuietMs) return;
    apart.told = true;
    log.warn({ digest, others: otherCatalogues }, "other proxies of this ledger have other prices in force");
  };
}

/** Passes on what peers did since the last beat; one that came or went may have done, or left, anything. */
function followWork(peers: Peers, on: Readonly<Record<keyof WorkDone, () => void>>): () => void {
  let known = new Map<number, WorkDone>();
  return () => {
    const now = new Map(
      peers.live().flatMap(({ epoch, news }) => (news === null ? [] : [[epoch, news.done] as const])),
    );
    const isNewCompany = now.size !== known.size || [...now.keys()].some((epoch) => !known.has(epoch));
    for (const work of ["posted", "queued", "tasks"] as const) {
      if (isNewCompany || [...now].some(([epoch, done]) => done[work] !== known.get(epoch)?.[work])) on[work]();
    }
    known = now;
  };
}
