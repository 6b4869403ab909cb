import type { Clock, Timer } from "../ports/clock.ts";
import { LedgerUnavailable, type Ledger } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";
import type { Duty } from "./duties.ts";

/** So often the holds of proxies that died are looked for while others live. Milliseconds. */
const periodMs = 5_000;

/**
 * Posts what a proxy left that died while this one runs. The first look is a period after the duty was taken: where the
 * ledger was out of reach for all, the others have shown by then that they live. Disposing of it ends it, after the look that runs.
 */
export function startRecovery(parts: {
  readonly ledger: Pick<Ledger, "recover">;
  readonly clock: Clock;
  readonly log: Log;
  readonly duty: Duty;
}): AsyncDisposable {
  const { ledger, clock, log, duty } = parts;
  let timer: Timer | null = null;
  let ended = false;
  let running: Promise<void> = Promise.resolve();

  const look = async (): Promise<void> => {
    if (!duty.isMine()) return;
    try {
      const recovered = await ledger.recover(clock.now());
      if (recovered > 0) log.warn({ recovered }, "holds of a proxy that died were posted as assumed");
    } catch (error) {
      // It is looked for again, and who cannot write says so elsewhere.
      if (!(error instanceof LedgerUnavailable))
        log.error({ err: error }, "holds of proxies that died could not be looked for");
    }
  };
  const schedule = (): void => {
    timer?.cancel();
    timer = clock.after(periodMs, () => {
      running = look().then(() => {
        if (!ended) schedule();
      });
    });
  };
  duty.onTaken(schedule);
  schedule();
  return {
    async [Symbol.asyncDispose]() {
      ended = true;
      timer?.cancel();
      await running;
    },
  };
}
