import type { Clock } from "../ports/clock.ts";

/** Resolves after this many milliseconds, or as soon as `ending` is aborted. */
export async function sleep(clock: Clock, ms: number, ending?: AbortSignal): Promise<void> {
  if (ending?.aborted === true) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = clock.after(ms, resolve);
  const stop = (): void => resolve();
  ending?.addEventListener("abort", stop);
  await promise;
  timer.cancel();
  ending?.removeEventListener("abort", stop);
}
