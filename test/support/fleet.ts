import type { Fleet, JobName, PeerReport, Peer } from "../../src/ports/fleet.ts";

/** Proxies that share a ledger, in one process. Heartbeats happen when the test triggers them. */
export class TestFleet {
  readonly #members = new Map<number, TestMember>();
  readonly claimed = new Map<JobName, { readonly epoch: number; readonly until: number }>();
  readonly #now: () => number;

  constructor(now: () => number = () => 0) {
    this.#now = now;
  }

  join(): TestMember {
    const member = new TestMember(this, this.#members.size + 1, this.#now);
    this.#members.set(member.epoch, member);
    return member;
  }

  /** Publishes all heartbeats, then updates all peers. */
  beat(): void {
    const live = [...this.#members.values()].filter(({ isLive }) => isLive);
    const heartbeats = live.map((member) => member.heartbeat());
    for (const member of live) member.receive(heartbeats.filter(({ epoch }) => epoch !== member.epoch));
  }
}

class TestMember implements Fleet {
  readonly epoch: number;
  isLive = true;
  /** True if this proxy can query the ledger. */
  isReached = true;
  /** Number of heartbeats requested before their time. */
  hastened = 0;
  #report: (() => PeerReport) | null = null;
  #live: readonly Peer[] = [];
  readonly #listeners = new Set<() => void>();
  readonly #fleet: TestFleet;
  readonly #now: () => number;

  constructor(fleet: TestFleet, epoch: number, now: () => number) {
    this.#fleet = fleet;
    this.epoch = epoch;
    this.#now = now;
  }

  heartbeat(): Peer {
    return { epoch: this.epoch, instance: `host-${this.epoch}`, report: this.#report?.() ?? null };
  }

  receive(peers: readonly Peer[]): void {
    this.#live = peers;
    for (const listener of this.#listeners) listener();
  }

  readonly peers: Fleet["peers"] = {
    publish: (report) => void (this.#report = report),
    beatNow: () => void this.hastened++,
    live: () => this.#live,
    onBeat: (listener) => {
      this.#listeners.add(listener);
      return () => void this.#listeners.delete(listener);
    },
  };

  readonly claims: Fleet["claims"] = {
    claim: async (jobs, forMs) => {
      if (!this.isReached) return [];
      const { claimed } = this.#fleet;
      return jobs.filter((job) => {
        const has = claimed.get(job);
        if (has !== undefined && has.epoch !== this.epoch && has.until > this.#now()) return false;
        claimed.set(job, { epoch: this.epoch, until: this.#now() + forMs });
        return true;
      });
    },
    release: async () => {
      for (const [job, { epoch }] of this.#fleet.claimed) if (epoch === this.epoch) this.#fleet.claimed.delete(job);
    },
  };
}
