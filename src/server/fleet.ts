import { claimJobs, type ClaimedJobs } from "../jobs/job-claims.ts";
import type { FleetGauges } from "./metrics/fleet-gauges.ts";
import { nothingUsed, sumOfUse, type LimitUse } from "../core/limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { Fleet, Peers, WorkDone } from "../ports/fleet.ts";
import type { Log } from "../ports/log.ts";
import type { PeerUsage } from "../request/limits.ts";

/** State of the other proxies, as `/readyz` shows it. */
export interface PeersStanding {
  readonly live: number;
  /** Content ids of their prices that differ from this proxy's. */
  readonly otherCatalogues: readonly string[];
}

/** This proxy as one of those that share the ledger. Disposing of it releases its jobs, so dispose of the jobs' work first. */
export interface FleetMember extends AsyncDisposable {
  readonly jobs: ClaimedJobs;
  /** Usage of limits by peers; undefined if the ledger has only this proxy. */
  readonly peerUsage: PeerUsage | undefined;
  /** Reports work of this proxy to its own listeners at once, and to peers with the next beat. */
  did(work: keyof WorkDone): void;
  /** Calls back after such work in this proxy or in a peer. */
  on(work: keyof WorkDone, listener: () => void): void;
  /** Starts to exchange reports with peers. `used` returns this proxy's usage of limits. */
  join(used: () => Readonly<Record<string, LimitUse>>): void;
  /** Returns the state of peers; null if the ledger has only this proxy. */
  standing(): PeersStanding | null;
}

interface Prices {
  readonly current: { readonly digest: string };
  reload(): Promise<void>;
  onTaken(listener: () => void): void;
}

interface MemberDeps {
  readonly fleet: Fleet | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly gauges: FleetGauges;
  readonly prices: Prices;
}

/** Time for which proxies may have different prices during a rollout, in milliseconds. A longer difference is logged. */
const differsQuietMs = 5_000;

const jobOf = { queued: "deliveries", tasks: "tasks" } as const;

export function fleetMember(deps: MemberDeps): FleetMember {
  const { fleet, clock, log, gauges, prices } = deps;
  const jobs = claimJobs({ claims: fleet?.claims ?? null, clock, log });
  gauges.showJobs((job) => jobs.of(job).isMine());
  const listeners: Record<keyof WorkDone, (() => void)[]> = { posted: [], queued: [], tasks: [] };
  const notify = (work: keyof WorkDone): void => {
    for (const listener of listeners[work]) listener();
  };
  const own = { jobs, on: (work: keyof WorkDone, listener: () => void) => void listeners[work].push(listener) };
  if (fleet === null) {
    return {
      ...own,
      peerUsage: undefined,
      did: notify,
      join() {},
      standing: () => null,
      [Symbol.asyncDispose]: () => jobs[Symbol.asyncDispose](),
    };
  }
  const { peers } = fleet;
  const done = { posted: 0, queued: 0, tasks: 0 };
  const standing = () => standingOf(peers, prices);
  const stops: (() => void)[] = [peers.onBeat(followPrices(deps, standing))];
  prices.onTaken(() => peers.beatNow());
  return {
    ...own,
    peerUsage: peerUsageOf(peers),
    did(work) {
      done[work]++;
      // Messages and tasks are reported at once because a client waits for them. Posted charges are reported with the next
      // beat.
      const isElsewhere = work === "posted" ? false : !jobs.of(jobOf[work]).isMine();
      if (isElsewhere) peers.beatNow();
      notify(work);
    },
    join(used) {
      peers.publish(() => ({ catalogue: prices.current.digest, used: used(), done: { ...done } }));
      stops.push(peers.onBeat(followWork(peers, notify)));
    },
    standing,
    async [Symbol.asyncDispose]() {
      for (const stop of stops) stop();
      await jobs[Symbol.asyncDispose]();
    },
  };
}

function standingOf(peers: Peers, prices: Prices): PeersStanding {
  const live = peers.live();
  const theirs = new Set(live.flatMap(({ report }) => (report === null ? [] : [report.catalogue])));
  theirs.delete(prices.current.digest);
  return { live: live.length, otherCatalogues: [...theirs].sort() };
}

/** Reads the price files again when a peer has new prices, and logs a difference that lasts. */
function followPrices({ clock, log, gauges, prices }: MemberDeps, standing: () => PeersStanding): () => void {
  let known = new Set<string>();
  let apart: { readonly since: number; isLogged: boolean } | null = null;
  return () => {
    const { live, otherCatalogues } = standing();
    gauges.onBeat(live, otherCatalogues.length > 0);
    if (otherCatalogues.some((digest) => !known.has(digest))) void prices.reload();
    const { digest } = prices.current;
    // This includes the proxy's own digest, so that a peer with the previous prices does not cause a reload.
    known = new Set([...otherCatalogues, digest]);
    if (otherCatalogues.length === 0) {
      if (apart?.isLogged === true) log.info({ digest }, "all proxies of this ledger have the same prices again");
      apart = null;
      return;
    }
    apart ??= { since: clock.monotonic(), isLogged: false };
    if (apart.isLogged || clock.monotonic() - apart.since < differsQuietMs) return;
    apart.isLogged = true;
    log.warn({ digest, others: otherCatalogues }, "other proxies of this ledger have other prices in force");
  };
}

/**
 * Calls `notify` for work that peers did since the last beat. If a peer appeared or disappeared, calls it for all kinds of
 * work, since that peer may have done work or left it unfinished.
 */
function followWork(peers: Peers, notify: (work: keyof WorkDone) => void): () => void {
  let known = new Map<number, WorkDone>();
  return () => {
    const now = new Map(
      peers.live().flatMap(({ epoch, report }) => (report === null ? [] : [[epoch, report.done] as const])),
    );
    const haveChanged = now.size !== known.size || [...now.keys()].some((epoch) => !known.has(epoch));
    for (const work of ["posted", "queued", "tasks"] as const) {
      if (haveChanged || [...now].some(([epoch, done]) => done[work] !== known.get(epoch)?.[work])) notify(work);
    }
    known = now;
  };
}

/** Returns the usage that live peers reported with their last beats, summed once for each beat of this proxy. */
export function peerUsageOf(peers: Peers): PeerUsage {
  let sums = new Map<string, LimitUse>();
  peers.onBeat(() => {
    sums = new Map();
    for (const { report } of peers.live()) {
      for (const [id, use] of Object.entries(report?.used ?? {}))
        sums.set(id, sumOfUse(sums.get(id) ?? nothingUsed, use));
    }
  });
  return (id) => sums.get(id) ?? nothingUsed;
}
