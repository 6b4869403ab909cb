import type { RateLimitUse } from "../../core/rate-limits.ts";
import type { Fleet, JobClaims, JobName, PeerReport, Peer, Peers, WorkDone } from "../../ports/fleet.ts";
import { databaseFault, type Statements } from "./connection.ts";
import type { LivePeer, Owner } from "./owners.ts";

type Db = Pick<Statements, "rows" | "run">;

/**
 * Implements `Fleet` for the proxies that share a database. `Owner` sends the heartbeats and passes the live peers to
 * `updatePeers`.
 */
export class PostgresFleet implements Fleet {
  readonly peers: Peers;
  readonly claims: JobClaims;
  readonly #listeners = new Set<() => void>();
  #live: readonly Peer[] = [];

  /** `version`: version of the program, which the list of proxies shows. */
  constructor(db: Db, owner: Pick<Owner, "knownEpoch" | "publish" | "beatNow">, version: string | null = null) {
    this.claims = jobClaims(db, owner);
    this.peers = {
      publish: (report) => {
        owner.publish(() => beatDataOf(report(), version));
        owner.beatNow();
      },
      beatNow: () => owner.beatNow(),
      live: () => this.#live,
      onBeat: (listener) => {
        this.#listeners.add(listener);
        return () => void this.#listeners.delete(listener);
      },
    };
  }

  /** Stores the live peers of a successful heartbeat and notifies the listeners. */
  updatePeers(peers: readonly LivePeer[]): void {
    this.#live = peers.map((peer) => ({ epoch: peer.epoch, instance: peer.instance, report: reportOf(peer) }));
    for (const listener of this.#listeners) listener();
  }
}

const claimJobs = `
  insert into jobs as job (name, owner, until)
  select name, $1::bigint, clock_timestamp() + $2::bigint * interval '1 millisecond' from unnest($3::text[]) as name order by name
  on conflict (name) do update set owner = excluded.owner, until = excluded.until
    where job.owner = excluded.owner or job.until <= clock_timestamp()
  returning name`;

function jobClaims(db: Db, owner: Pick<Owner, "knownEpoch">): JobClaims {
  return {
    async claim(jobs, forMs) {
      try {
        const claimed = await db.rows<{ name: JobName }>({ name: "claim_jobs", text: claimJobs }, [
          owner.knownEpoch(),
          forMs,
          [...jobs],
        ]);
        return claimed.map(({ name }) => name);
      } catch (error) {
        if (databaseFault(error) === null) throw error;
        return [];
      }
    },
    async release() {
      try {
        await db.run("delete from jobs where owner = $1", [owner.knownEpoch()]);
      } catch (error) {
        // Ignores the fault, because claims that are not released expire.
        if (databaseFault(error) === null) throw error;
      }
    },
  };
}

/**
 * Payload of a heartbeat. Each proxy writes it twice a second, and all peers read it. To save space, the use of a limit
 * is an array.
 */
interface Payload {
  readonly used: Readonly<Record<string, readonly [requests: number, tokens: number, running: number]>>;
  readonly done: WorkDone;
  readonly version: string | null;
}

function beatDataOf(
  { catalogue, used, done }: PeerReport,
  version: string | null,
): { readonly catalogue: string; readonly uses: string } {
  const short = Object.entries(used).map(
    ([id, { requests, tokens, running }]) => [id, [requests, tokens, running]] as const,
  );
  return { catalogue, uses: JSON.stringify({ used: Object.fromEntries(short), done, version } satisfies Payload) };
}

/** Returns the report in a peer's heartbeat; null if the heartbeat has none, or if its format is unknown. */
function reportOf({ catalogue, uses }: LivePeer): PeerReport | null {
  if (catalogue === null || uses === null) return null;
  try {
    const { used, done } = JSON.parse(uses) as Payload;
    const whole = Object.entries(used).map(([id, [requests, tokens, running]]): [string, RateLimitUse] => [
      id,
      { requests, tokens, running },
    ]);
    const counts = [...whole.flatMap(([, use]) => Object.values(use)), done.posted, done.queued, done.tasks];
    return counts.every((count) => Number.isFinite(count))
      ? { catalogue, used: Object.fromEntries(whole), done }
      : null;
  } catch {
    return null;
  }
}
