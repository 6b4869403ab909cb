import { once } from "node:events";
import { setTimeout } from "node:timers/promises";

/** Resolves to true after a delay, or to false as soon as the client is gone. */
export async function pause(ms: number, gone: AbortSignal): Promise<boolean> {
  if (ms > 0) await setTimeout(ms, undefined, { signal: gone }).catch(() => undefined);
  return !gone.aborted;
}

/** Resolves when the client is gone. */
export async function untilGone(gone: AbortSignal): Promise<void> {
  if (!gone.aborted) await once(gone, "abort");
}
