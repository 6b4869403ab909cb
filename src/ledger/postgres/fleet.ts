import type { LimitUse } from "../../core/limits.ts";
import type { Fleet, JobClaims, JobName, PeerReport, Peer, Peers, WorkDone } from "../../ports/fleet.ts";
import { databaseFault, type Statements } from "./connection.ts";
import type { LivePeer, Owner } from "./owners.ts";

type Db = Pick<Statements, "rows" | "run">;

/**
 * Proxies that share a database, as of this run's last heartbeat. The run's owner passes the peers of each heartbeat to
 * `updatePeers`.
 */
export class PostgresFleet implements Fleet {
  readonly peers: Peers;
  readonly claims: JobClaims;
  readonly #listeners = new Set<() => void>();
  #live: readonly Peer[] = [];

  /** `version`: program version, for people who list the proxies. */
  constructor(db: Db, run: Pick<Owner, "known" | "publish" | "beatNow">, version: string | null = null) {
    this.claims = jobClaims(db, run);
    this.peers = {
      publish: (report) => {
        run.publish(() => beatDataOf(report(), version));
        run.beatNow();
      },
      beatNow: () => run.beatNow(),
      live: () => this.#live,
      onBeat: (listener) => {
        this.#listeners.add(listener);
        return () => void this.#listeners.delete(listener);
      },
    };
  }

  /** Receives the live peers of a successful heartbeat. */
  updatePeers(others: readonly LivePeer[]): void {
    this.#live = others.map((peer) => ({ epoch: peer.epoch, instance: peer.instance, report: reportOf(peer) }));
    for (const listener of this.#listeners) listener();
  }
}

const claimJobs = `
  insert into jobs as job (name, owner, until)
  select name, $1::bigint, clock_timestamp() + $2::bigint * interval '1 millisecond' from unnest($3::text[]) as name order by name
  on conflict (name) do update set owner = excluded.owner, until = excluded.until
    where job.owner = excluded.owner or job.until <= clock_timestamp()
  returning name`;

function jobClaims(db: Db, run: Pick<Owner, "known">): JobClaims {
  return {
    async claim(jobs, forMs) {
      try {
        const claimed = await db.rows<{ name: JobName }>({ name: "claim_jobs", text: claimJobs }, [
          run.known(),
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
        await db.run("delete from jobs where owner = $1", [run.known()]);
      } catch (error) {
        // Unreleased jobs expire.
        if (databaseFault(error) === null) throw error;
      }
    },
  };
}

/**
 * Payload of a heartbeat. Limits are `[requests, tokens, running]`: every proxy writes them twice a second, and every
 * other one reads them.
 */
interface Uses {
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
  return { catalogue, uses: JSON.stringify({ used: Object.fromEntries(short), done, version } satisfies Uses) };
}

/** Returns null for a payload in another release's format. */
function reportOf({ catalogue, uses }: LivePeer): PeerReport | null {
  if (catalogue === null || uses === null) return null;
  try {
    const { used, done } = JSON.parse(uses) as Uses;
    const whole = Object.entries(used).map(([id, [requests, tokens, running]]): [string, LimitUse] => [
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
