import { setTimeout as pause } from "node:timers/promises";

/** Longest wait for a state, in milliseconds; only a broken program takes that long. */
const patienceMs = 150_000;

/** Waits for a state of another process or thread without keeping a core busy. `what` completes "waited until …". */
export async function until(holds: () => boolean | Promise<boolean>, what = holds.toString()): Promise<void> {
  const late = performance.now() + patienceMs;
  while (!(await holds())) {
    if (performance.now() > late) throw new Error(`waited ${patienceMs} ms until ${what}`);
    await pause(25);
  }
}
