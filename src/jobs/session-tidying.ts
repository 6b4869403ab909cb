import type { Clock } from "../ports/clock.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { RunSessions } from "../ports/stores.ts";
import { loop } from "../platform/loop.ts";

const everyMs = 600_000;

/**
 * Removes the budgets of ended sessions, at the start and every ten minutes. Several proxies may do so at the same
 * time.
 */
export function startSessionTidying(deps: {
  readonly sessions: Pick<RunSessions, "tidy">;
  readonly clock: Clock;
  readonly log: Log;
}): AsyncDisposable {
  const { sessions, clock, log } = deps;
  const tidy = async (): Promise<void> => void (await sessions.tidy(clock.now()));
  return loop(clock, tidy, {
    everyMs,
    onError(error) {
      // Other code reports a ledger that cannot be written.
      if (!(error instanceof LedgerUnavailable))
        log.error({ err: error }, "budgets of ended sessions could not be removed");
    },
  });
}
