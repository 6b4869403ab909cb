import type { Fleet, JobName, PeerReport, Peer } from "../../src/ports/fleet.ts";

/** Proxies that share a ledger, in one process: a beat of one is updatePeers by the others when the test says so. */
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

  /** All publish, then all hear. */
  beat(): void {
    const live = [...this.#members.values()].filter(({ isLive }) => isLive);
    const said = live.map((member) => member.said());
    for (const member of live) member.hear(said.filter(({ epoch }) => epoch !== member.epoch));
  }
}

export class TestMember implements Fleet {
  readonly epoch: number;
  isLive = true;
  /** True if the ledger answers this proxy. */
  isReached = true;
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

  said(): Peer {
    return { epoch: this.epoch, instance: `host-${this.epoch}`, report: this.#report?.() ?? null };
  }

  hear(peers: readonly Peer[]): void {
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
