import { expect, it } from "vitest";
import type { BatchChannel, BatchResult, Command } from "../../../src/ledger/commands.ts";
import { CommandQueue } from "../../../src/ledger/queue.ts";
import { manualClock } from "../../support/manual-clock.ts";

/** Queue whose turns of the event loop and transactions end when the test says so. */
function queueByHand() {
  const clock = manualClock(0);
  const turns: (() => void)[] = [];
  const batches: Command[][] = [];
  const commits: (() => void)[] = [];
  const channel: BatchChannel = {
    apply(commands) {
      batches.push([...commands]);
      return new Promise<BatchResult>((resolve) => {
        const outcomes = commands.map(() => ({ kind: "done", reply: true }) as const);
        commits.push(() => resolve({ outcomes, seconds: 0, changed: false }));
      });
    },
    close: async () => {},
  };
  const on = { write: () => {}, changed: () => {} };
  const queue = new CommandQueue(channel, clock, on, 0, (callback) => void turns.push(callback));
  const add = (count: number) => {
    for (let index = 0; index < count; index++) void queue.submit(["touch"]);
  };
  const run = async (next: (() => void) | undefined) => {
    next?.();
    for (let index = 0; index < 10; index++) await Promise.resolve();
  };
  return {
    clock,
    add,
    endTurn: () => run(turns.shift()),
    commit: () => run(commits.shift()),
    sizes: () => batches.map(({ length }) => length),
  };
}

it("sends the commands of a client alone at the end of the turn", async () => {
  const { add, endTurn, sizes } = queueByHand();
  add(2);
  await endTurn();
  expect(sizes()).toEqual([2]);
});

it("gathers commands until a turn ends without a new one", async () => {
  const { add, endTurn, commit, sizes } = queueByHand();
  add(1);
  for (const arriving of [3, 2, 5]) {
    add(arriving);
    await endTurn();
  }
  expect(sizes()).toEqual([]);
  await endTurn();
  expect(sizes()).toEqual([11]);

  add(4);
  await commit();
  add(3);
  await endTurn();
  expect(sizes()).toEqual([11]);
  await endTurn();
  expect(sizes()).toEqual([11, 7]);
});

it("does not gather for longer than 2 ms", async () => {
  const { clock, add, endTurn, sizes } = queueByHand();
  add(3);
  await endTurn();
  for (let turn = 0; turn < 3; turn++) {
    add(1);
    clock.advance(1);
    await endTurn();
  }
  expect(sizes()).toEqual([5]);
});

it("sends the commands of one client, or of many, directly after a transaction", async () => {
  const { add, endTurn, commit, sizes } = queueByHand();
  add(1);
  await endTurn();
  for (const waiting of [2, 32, 300]) {
    add(waiting);
    await commit();
  }
  expect(sizes()).toEqual([1, 2, 32, 256]);
});
