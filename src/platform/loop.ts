import type { Clock, Timer } from "../ports/clock.ts";

/** Runs one step repeatedly, and never twice at the same time. Disposal waits for the run in progress. */
export interface Loop extends AsyncDisposable {
  /** Aborted on disposal, so that a step that waits can stop. */
  readonly ending: AbortSignal;
  /**
   * Runs the step within `withinMs`, 0 by default. Several calls cause only one run. If a run is in progress, the time
   * starts at the end of that run.
   */
  wake(withinMs?: number): void;
  /** Runs the step now, or after the run in progress. Resolves when the new run has ended. */
  run(): Promise<void>;
}

interface LoopOptions {
  /** Milliseconds before the first run; the default is 0. */
  readonly firstMs?: number;
  /** Milliseconds from the end of a run to the next run if the step returns nothing or throws. */
  readonly everyMs: number;
  readonly onError: (error: unknown) => void;
}

/**
 * Starts a loop. The step returns the number of milliseconds until the next run: Infinity to wait for `wake`, undefined
 * for `everyMs`.
 */
export function loop(
  clock: Clock,
  step: () => Promise<number | void>,
  { firstMs = 0, everyMs, onError }: LoopOptions,
): Loop {
  const ending = new AbortController();
  let timer: Timer | null = null;
  /** Instant at which the timer fires, in milliseconds of the monotonic clock. */
  let dueAt = Infinity;
  let isRunning = false;
  /** The run in progress, or the latest one. */
  let running: Promise<void> = Promise.resolve();
  /** Milliseconds from the end of the run in progress to the next run, as `wake` requested. */
  let wokenMs = Infinity;

  const wake = (withinMs = 0): void => {
    if (isRunning) wokenMs = Math.min(wokenMs, withinMs);
    else if (withinMs <= 0) start();
    else arm(withinMs);
  };
  const arm = (ms: number): void => {
    const at = clock.monotonic() + ms;
    if (at >= dueAt || ending.signal.aborted) return;
    timer?.cancel();
    dueAt = at;
    timer = clock.after(ms, start);
  };
  const start = (): void => {
    if (isRunning || ending.signal.aborted) return;
    timer?.cancel();
    dueAt = Infinity;
    isRunning = true;
    running = runOnce();
  };
  const runOnce = async (): Promise<void> => {
    wokenMs = Infinity;
    let nextMs: number | void = everyMs;
    try {
      nextMs = await step();
    } catch (error) {
      onError(error);
    }
    isRunning = false;
    wake(Math.min(nextMs ?? everyMs, wokenMs));
  };

  // The first step starts after this function returns, so the step may use the loop.
  if (firstMs > 0) arm(firstMs);
  else queueMicrotask(start);
  return {
    ending: ending.signal,
    wake,
    async run() {
      const current = running;
      wake();
      await current;
      await running;
    },
    async [Symbol.asyncDispose]() {
      ending.abort();
      timer?.cancel();
      await running;
    },
  };
}

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
