import { samplesToThin, type AccountSample, type LedgerTotals } from "../core/account.ts";
import type { Log } from "../ports/log.ts";
import { loop } from "../platform/loop.ts";
import type { JobClaim } from "./job-claims.ts";
import { takeSample, type SampleDeps } from "./take-sample.ts";
import { dayMs, hourMs, minuteMs } from "../core/time.ts";

/** Samples the gateway's account while a proxy runs. Disposal waits for the sample in progress. */
export interface BalanceSampler extends AsyncDisposable {
  /**
   * Takes a sample now, even if none is due. Returns undefined if the gateway sent no record, or if the sample could
   * not be stored.
   */
  sample(): Promise<AccountSample | undefined>;
}

/** Shortest pause between two samples, in milliseconds. Applies even if the cached balance expires sooner. */
const periodMsMin = minuteMs;
/**
 * Delay of the first sample, in milliseconds. The delay is short, because a baseline must exist early. It is not 0,
 * because a proxy that fails usually fails right after its start.
 */
const firstMs = 15_000;
/**
 * Pause between samples without traffic, in milliseconds. Such samples show in which hour someone else used the
 * account.
 */
const idlePeriodMs = hourMs;
const thinEveryMs = dayMs;

/**
 * Takes a sample every `everyMs` during traffic. Takes one more sample when nothing is pending anymore, and then one
 * sample every hour. Thins out old samples once a day. While another proxy has the job, takes only requested samples.
 */
export function startBalanceSampler(
  deps: SampleDeps & {
    readonly log: Log;
    readonly everyMs: number;
    /** Fetches the account's record from the gateway. Returns undefined if the gateway sends none. */
    readonly fetch: () => Promise<unknown>;
    readonly claim: JobClaim;
  },
): BalanceSampler {
  const { ledger, samples, clock, log, claim } = deps;
  let isRequested = false;
  let lastTaken: AccountSample | undefined;
  // After a restart, Farebox does not know whether the last sample followed traffic, so it takes another sample.
  let followsTraffic = true;
  let hasFailed = false;
  let thinnedAt: number | null = null;

  const sample = async (): Promise<void> => {
    const latest = await samples.latest();
    const taken = await takeSample(deps, deps.fetch);
    if (taken === undefined && !hasFailed) log.warn({}, "no sample of the gateway's account could be taken");
    hasFailed = taken === undefined;
    if (taken !== undefined) followsTraffic = latest !== undefined && hasRunSince(latest, taken.after);
    lastTaken = taken;
  };
  const isDue = async (): Promise<boolean> => {
    const latest = await samples.latest();
    if (latest === undefined || followsTraffic || clock.now() - latest.askedAt >= idlePeriodMs) return true;
    return hasRunSince(latest, await ledger.totals());
  };
  const thin = async (): Promise<void> => {
    const now = clock.now();
    if (thinnedAt !== null && now - thinnedAt < thinEveryMs) return;
    thinnedAt = now;
    await samples.remove(samplesToThin(await samples.list(0, now), now));
  };
  const sampleIfDue = async (): Promise<void> => {
    const isAsked = isRequested;
    isRequested = false;
    if (!isAsked && !claim.isMine()) return;
    lastTaken = undefined;
    if (isAsked || (await isDue())) await sample();
    await thin();
  };

  const sampling = loop(clock, sampleIfDue, {
    firstMs,
    everyMs: Math.max(deps.everyMs, periodMsMin),
    onError: (error) => log.error({ err: error }, "the account's sampler failed"),
  });
  return {
    async sample() {
      isRequested = true;
      await sampling.run();
      return lastTaken;
    },
    [Symbol.asyncDispose]: () => sampling[Symbol.asyncDispose](),
  };
}

/** Returns true if requests were pending at the sample, are pending now, or were recorded in between. */
function hasRunSince({ before }: AccountSample, now: LedgerTotals): boolean {
  return before.pending > 0 || now.pending > 0 || before.written !== now.written;
}
