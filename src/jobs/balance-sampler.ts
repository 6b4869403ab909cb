import { samplesToThin, type AccountSample, type LedgerTotals } from "../core/account-sample.ts";
import type { Timer } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { ownDuty, type Duty } from "./duties.ts";
import { takeSample, type SampleTools } from "./take-sample.ts";

/** Samples the gateway's account while a proxy runs. Disposing of it ends it, after the sample that is being taken. */
export interface BalanceSampler extends AsyncDisposable {
  /** Takes one now, due or not. Undefined when the gateway gave no record, or it could not be kept. */
  sample(): Promise<AccountSample | undefined>;
}

/** The account is not asked more often than this, however short the balance's time to live. Milliseconds. */
const periodMsMin = 60_000;
/** The first one soon, so that there is something to compare with; not at once, because most trouble shows at the start. */
const firstAfterMs = 15_000;
/** While nothing runs: often enough to name the hour in which others used the account. */
const idlePeriodMs = 3_600_000;
const thinEveryMs = 86_400_000;

/**
 * Takes a sample every `everyMs` while there is traffic and once more after it, so that there is one at which nothing is
 * pending and nothing comes late; else every hour. Thins out old ones once a day. One timer, at most one request at a time;
 * nothing while another proxy has the duty.
 */
export function startBalanceSampler(
  parts: SampleTools & {
    readonly log: Log;
    readonly everyMs: number;
    /** The record fresh from the gateway; undefined where there is none. */
    readonly fetch: () => Promise<unknown>;
    /** This proxy's own unless given. */
    readonly duty?: Duty;
  },
): BalanceSampler {
  const { ledger, samples, clock, log, duty = ownDuty } = parts;
  const periodMs = Math.max(parts.everyMs, periodMsMin);
  let timer: Timer | null = null;
  let ended = false;
  let running: Promise<unknown> = Promise.resolve();
  // Of the last sample; of one before a restart nobody knows.
  let followsTraffic = true;
  let hasFailed = false;
  let thinnedAt: number | null = null;

  const sample = async (): Promise<AccountSample | undefined> => {
    const latest = await samples.latest();
    const taken = await takeSample(parts, parts.fetch);
    if (taken === undefined && !hasFailed) log.warn({}, "no sample of the gateway's account could be taken");
    hasFailed = taken === undefined;
    if (taken !== undefined) followsTraffic = latest !== undefined && hasRunSince(latest, taken.after);
    return taken;
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
  const tick = async (): Promise<void> => {
    if (!duty.isMine()) return;
    try {
      if (await isDue()) await sample();
      await thin();
    } catch (error) {
      log.error({ err: error }, "the account's sampler failed");
    }
  };
  /** One after the other: a sample that is asked for meanwhile waits. */
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const result = running.then(work);
    running = result.catch(() => undefined);
    return result;
  };
  const schedule = (afterMs: number): void => {
    timer = clock.after(afterMs, () => {
      void inTurn(tick).then(() => {
        if (!ended) schedule(periodMs);
      });
    });
  };
  schedule(firstAfterMs);
  return {
    sample: () => inTurn(sample),
    async [Symbol.asyncDispose]() {
      ended = true;
      timer?.cancel();
      await running;
    },
  };
}

function hasRunSince({ before }: AccountSample, now: LedgerTotals): boolean {
  return before.pending > 0 || now.pending > 0 || before.written !== now.written;
}
