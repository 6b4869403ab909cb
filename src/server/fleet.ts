import { claimJobs, type ClaimedJobs } from "../jobs/job-claims.ts";
import type { FleetGauges } from "./metrics/job-metrics.ts";
import type { Preset } from "../core/price.ts";
import { nothingUsed, sumOfUse, type RateLimitUse } from "../core/rate-limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { Fleet, Peers, WorkDone } from "../ports/fleet.ts";
import type { Log } from "../ports/log.ts";
import type { PeerUsage } from "../request/rate-limits.ts";

/** State of the peers, as `/readyz` shows it. */
interface PeersStanding {
  /** Number of live peers. */
  readonly live: number;
  /** Digests of peers' prices that differ from the digest of this proxy's prices. */
  readonly otherCatalogues: readonly string[];
}

/**
 * Membership of this proxy in the fleet that shares the ledger. Disposal releases the proxy's jobs, so stop their work
 * first.
 */
export interface FleetMember extends AsyncDisposable {
  readonly jobs: ClaimedJobs;
  /** Returns the usage that peers reported; undefined if the ledger cannot be shared. */
  readonly peerUsage: PeerUsage | undefined;
  /** Reports work of this proxy to its own listeners at once, and to peers with the next heartbeat at the latest. */
  readonly report: Readonly<Record<keyof WorkDone, () => void>>;
  /** Adds a listener for this kind of work, by this proxy or a peer. */
  on(work: keyof WorkDone, listener: () => void): void;
  /** Starts to exchange reports with peers. `used` returns this proxy's usage of limits. */
  join(used: () => Readonly<Record<string, RateLimitUse>>): void;
  /** Returns the state of the peers; null if the ledger cannot be shared. */
  standing(): PeersStanding | null;
}

interface Prices {
  current(): { readonly digest: string };
  reload(): Promise<void>;
  onApplied(listener: () => void): void;
}

interface MemberDeps {
  readonly fleet: Fleet | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly gauges: FleetGauges;
  readonly prices: Prices;
  readonly preset: Preset;
}

/** Time for which proxies may have different prices without a warning, as in a rollout, in milliseconds. */
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
      report: byWork(notify),
      join() {},
      standing: () => null,
      [Symbol.asyncDispose]: () => jobs[Symbol.asyncDispose](),
    };
  }
  const { peers } = fleet;
  const done = { posted: 0, queued: 0, tasks: 0 };
  const standing = () => standingOf(peers, prices);
  const stops: (() => void)[] = [peers.onBeat(followPrices(deps, standing))];
  prices.onApplied(() => peers.beatNow());
  return {
    ...own,
    peerUsage: peerUsageOf(peers),
    report: byWork((work) => {
      done[work]++;
      // Messages and tasks are reported at once, because a client waits for them. Posted charges wait for the next
      // heartbeat.
      if (work !== "posted" && !jobs.of(jobOf[work]).isMine()) peers.beatNow();
      notify(work);
    }),
    join(used) {
      peers.publish(() => ({ catalogue: prices.current().digest, used: used(), done: { ...done } }));
      stops.push(peers.onBeat(followWork(peers, notify)));
    },
    standing,
    async [Symbol.asyncDispose]() {
      for (const stop of stops) stop();
      await jobs[Symbol.asyncDispose]();
    },
  };
}

function byWork(report: (work: keyof WorkDone) => void): FleetMember["report"] {
  return { posted: () => report("posted"), queued: () => report("queued"), tasks: () => report("tasks") };
}

function standingOf(peers: Peers, prices: Prices): PeersStanding {
  const live = peers.live();
  const theirs = new Set(live.flatMap(({ report }) => (report === null ? [] : [report.catalogue])));
  theirs.delete(prices.current().digest);
  return { live: live.length, otherCatalogues: [...theirs].sort() };
}

/**
 * Returns a listener for heartbeats. It reloads the price files if a peer has new prices, and logs a lasting
 * difference.
 */
function followPrices({ clock, log, gauges, prices, preset }: MemberDeps, standing: () => PeersStanding): () => void {
  let known = new Set<string>();
  let difference: { readonly since: number; isLogged: boolean } | null = null;
  return () => {
    const { live, otherCatalogues } = standing();
    gauges.onBeat(live, otherCatalogues.length > 0);
    if (otherCatalogues.some((digest) => !known.has(digest))) void prices.reload();
    const { digest } = prices.current();
    // The set includes this proxy's digest, so that a peer with the previous prices does not cause a reload.
    known = new Set([...otherCatalogues, digest]);
    if (otherCatalogues.length === 0) {
      if (difference?.isLogged === true) log.info({ digest }, "all proxies on this ledger use the same prices again");
      difference = null;
      return;
    }
    difference ??= { since: clock.monotonic(), isLogged: false };
    if (difference.isLogged || clock.monotonic() - difference.since < differsQuietMs) return;
    difference.isLogged = true;
    log.warn({ digest, preset, others: otherCatalogues }, "other proxies on this ledger use different prices");
  };
}

/**
 * Returns a listener for heartbeats that calls `notify` for work that peers have done since the last heartbeat. If a peer
 * appeared or disappeared, it calls `notify` for all kinds of work, because that peer may have done work or left it
 * unfinished.
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

/**
 * Returns a function that sums what live peers last reported for a key or team. The sums are updated with each
 * heartbeat of this proxy.
 */
export function peerUsageOf(peers: Peers): PeerUsage {
  let sums = new Map<string, RateLimitUse>();
  peers.onBeat(() => {
    sums = new Map();
    for (const { report } of peers.live()) {
      for (const [id, use] of Object.entries(report?.used ?? {}))
        sums.set(id, sumOfUse(sums.get(id) ?? nothingUsed, use));
    }
  });
  return (id) => sums.get(id) ?? nothingUsed;
}
