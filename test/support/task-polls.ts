import type { ManualClock } from "./manual-clock.ts";
import type { RunningProxy } from "./running-proxy.ts";

/** Yields to the event loop until a condition holds; the work that is waited for is already under way. */
export async function untilHolds(
  holds: () => Promise<boolean> | boolean,
  turn: () => void = () => undefined,
): Promise<void> {
  while (!(await holds())) {
    for (let turns = 0; turns < 5; turns += 1) {
      turn();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}

/** Advances the clock poll by poll until a task is settled; a settlement waits for some milliseconds. */
export async function advanceUntilSettled(
  { serving }: RunningProxy,
  clock: ManualClock,
  { taskId = "t-1", strideMs = 0 }: { readonly taskId?: string; readonly strideMs?: number } = {},
): Promise<void> {
  for (;;) {
    const task = await serving.tasks.find(taskId);
    if (task === undefined || task.nextPollAt === null) return;
    clock.advance(Math.max(task.nextPollAt - clock.now(), 2_000, strideMs));
    await untilHolds(
      async () => {
        const now = await serving.tasks.find(taskId);
        return now?.seenAt !== task.seenAt || now.nextPollAt === null;
      },
      () => clock.advance(10),
    );
  }
}

/** Advances the clock until work that waits for it is done. */
export async function advanceWhile(work: Promise<unknown>, clock: ManualClock): Promise<void> {
  let isDone = false;
  const done = work.finally(() => (isDone = true));
  await untilHolds(
    () => isDone,
    () => clock.advance(1),
  );
  await done;
}
