import type { Clock } from "../ports/clock.ts";
import { jobNames, type JobClaims, type JobName } from "../ports/fleet.ts";
import type { Log } from "../ports/log.ts";
import { loop, type Loop } from "../platform/loop.ts";

/** This proxy's claim to a job. Only one of the proxies that share the ledger does the job. */
export interface JobClaim {
  /**
   * Returns true while this proxy has the job. Callers check this before every step with effects. A suspended proxy
   * cannot renew its claim, so the claim may have expired.
   */
  isMine(): boolean;
  /** Adds a listener, which is called each time this proxy gets the job. */
  onTaken(listener: () => void): void;
}

/** Claim of a proxy that shares its ledger with no other proxy. It never calls a listener. */
export const alwaysMine: JobClaim = { isMine: () => true, onTaken() {} };

export interface ClaimedJobs extends AsyncDisposable {
  of(job: JobName): JobClaim;
}

/** Duration of a claim, in milliseconds. The jobs of a proxy that died are free after this time. */
const claimMs = 3_000;
const renewMs = 1_000;

/** Claims every free job, and renews its claims until disposal. `claims`: null if no other proxy shares the ledger. */
export function claimJobs(deps: {
  readonly claims: JobClaims | null;
  readonly clock: Clock;
  readonly log: Log;
}): ClaimedJobs {
  const { claims } = deps;
  return claims === null
    ? { of: () => alwaysMine, async [Symbol.asyncDispose]() {} }
    : new SharedJobs({ ...deps, claims });
}

class SharedJobs implements ClaimedJobs {
  readonly #claims: JobClaims;
  readonly #clock: Clock;
  /** End of each claim, by the monotonic clock. */
  readonly #until = new Map<JobName, number>();
  readonly #listeners = new Map<JobName, (() => void)[]>(jobNames.map((job) => [job, []]));
  readonly #loop: Loop;

  constructor({ claims, clock, log }: { readonly claims: JobClaims; readonly clock: Clock; readonly log: Log }) {
    this.#claims = claims;
    this.#clock = clock;
    this.#loop = loop(clock, () => this.#claim(), {
      everyMs: renewMs,
      onError: (error) => log.error({ err: error }, "jobs could not be claimed"),
    });
  }

  of(job: JobName): JobClaim {
    return {
      isMine: () => this.#has(job),
      onTaken: (listener) => void this.#listeners.get(job)?.push(listener),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    this.#until.clear();
    await this.#claims.release();
  }

  #has(job: JobName): boolean {
    return this.#clock.monotonic() < (this.#until.get(job) ?? 0);
  }

  async #claim(): Promise<void> {
    // Reads the time before the call, because the claim must end here no later than in the database.
    const until = this.#clock.monotonic() + claimMs;
    const own = new Set(await this.#claims.claim(jobNames, claimMs));
    if (this.#loop.ending.aborted) return;
    const taken = jobNames.filter((job) => own.has(job) && !this.#has(job));
    for (const job of own) this.#until.set(job, until);
    for (const job of taken.filter((each) => this.#has(each))) {
      for (const listener of this.#listeners.get(job) ?? []) listener();
    }
  }
}
