import type { Clock } from "../ports/clock.ts";
import { LedgerUnavailable, type LedgerMaintenance } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import { loop } from "../platform/loop.ts";
import type { JobClaim } from "./job-claims.ts";

/** Pause between two recoveries, in milliseconds. */
const everyMs = 5_000;

/**
 * Posts the holds of proxies that died. Starts one period after this proxy got the job. By then, live peers have sent a
 * heartbeat even after an outage of the ledger, so recovery does not post their holds.
 */
export function startRecovery(deps: {
  readonly ledger: LedgerMaintenance;
  readonly clock: Clock;
  readonly log: Log;
  readonly claim: JobClaim;
}): AsyncDisposable {
  const { ledger, clock, log, claim } = deps;
  let claimedAt = clock.monotonic();
  claim.onTaken(() => (claimedAt = clock.monotonic()));

  const recover = async (): Promise<number | void> => {
    const waitMs = claimedAt + everyMs - clock.monotonic();
    if (waitMs > 0) return waitMs;
    if (!claim.isMine()) return;
    const recovered = await ledger.recover(clock.now());
    if (recovered > 0) log.warn({ recovered }, "holds of a proxy that died were posted as assumed");
  };
  return loop(clock, recover, {
    firstMs: everyMs,
    everyMs,
    onError(error) {
      // Other code reports a ledger that cannot be written.
      if (!(error instanceof LedgerUnavailable))
        log.error({ err: error }, "holds of proxies that died could not be posted");
    },
  });
}
