import type { Clock, Timer } from "../ports/clock.ts";
import { jobNames, type JobClaims, type JobName } from "../ports/fleet.ts";

/** Whether a job is this proxy's to do. */
export interface Duty {
  /**
   * To be asked before every step with effects. It ends by itself where the claim was not renewed: a proxy that was stopped
   * for a while finds out before it does anything.
   */
  isMine(): boolean;
  /** Calls back whenever the job has become this proxy's. */
  onTaken(listener: () => void): void;
}

/** Where one proxy alone has the ledger. */
export const ownDuty: Duty = { isMine: () => true, onTaken() {} };

export interface Duties extends AsyncDisposable {
  of(job: JobName): Duty;
}

const aloneDuties: Duties = { of: () => ownDuty, async [Symbol.asyncDispose]() {} };

/** A claim lasts so long: whoever dies with one is followed by another proxy so much later at most, and one more renewal. Milliseconds. */
const claimMs = 3_000;
const renewMs = 1_000;

/** Claims every job that is free, and keeps it until disposed of. `claims` null: there is nobody to share them with. */
export function startDuties({ claims, clock }: { readonly claims: JobClaims | null; readonly clock: Clock }): Duties {
  return claims === null ? aloneDuties : new SharedDuties(claims, clock);
}

class SharedDuties implements Duties {
  readonly #claims: JobClaims;
  readonly #clock: Clock;
  /** Until when each is this proxy's, on the monotonic scale. */
  readonly #until = new Map<JobName, number>();
  readonly #listeners = new Map<JobName, (() => void)[]>(jobNames.map((job) => [job, []]));
  #timer: Timer | null = null;
  #claiming: Promise<void>;
  #ended = false;

  constructor(claims: JobClaims, clock: Clock) {
    this.#claims = claims;
    this.#clock = clock;
    this.#claiming = this.#claim();
  }

  of(job: JobName): Duty {
    return {
      isMine: () => this.#has(job),
      onTaken: (listener) => void this.#listeners.get(job)?.push(listener),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended = true;
    this.#timer?.cancel();
    await this.#claiming;
    this.#until.clear();
    await this.#claims.release();
  }

  #has(job: JobName): boolean {
    return this.#clock.monotonic() < (this.#until.get(job) ?? 0);
  }

  async #claim(): Promise<void> {
    // Its end is counted from before the call, so that it is over here no later than there.
    const until = this.#clock.monotonic() + claimMs;
    const own = new Set(await this.#claims.claim(jobNames, claimMs));
    if (this.#ended) return;
    const taken = jobNames.filter((job) => own.has(job) && !this.#has(job));
    for (const job of own) this.#until.set(job, until);
    for (const job of taken.filter((each) => this.#has(each))) {
      for (const listener of this.#listeners.get(job) ?? []) listener();
    }
    this.#timer = this.#clock.after(renewMs, () => (this.#claiming = this.#claim()));
  }
}
