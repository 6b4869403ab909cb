import type { Clock, Timer } from "../ports/clock.ts";
import { LedgerUnavailable } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { RunSessions } from "../ports/run-sessions.ts";

/** Milliseconds between two times. */
const periodMs = 600_000;

/** Removes budgets of sessions that are over, at once and every ten minutes. Several proxies may do so at the same time. */
export function startSessionTidying(parts: {
  readonly sessions: Pick<RunSessions, "tidy">;
  readonly clock: Clock;
  readonly log: Log;
}): AsyncDisposable {
  const { sessions, clock, log } = parts;
  let timer: Timer | null = null;
  let ended = false;
  const tidy = async (): Promise<void> => {
    try {
      await sessions.tidy(clock.now());
    } catch (error) {
      // A ledger that cannot be written is reported elsewhere.
      if (!(error instanceof LedgerUnavailable))
        log.error({ err: error }, "sessions that are over could not be removed");
    }
    if (!ended) timer = clock.after(periodMs, () => (running = tidy()));
  };
  let running = tidy();
  return {
    async [Symbol.asyncDispose]() {
      ended = true;
      timer?.cancel();
      await running;
    },
  };
}
