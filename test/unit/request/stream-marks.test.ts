import { expect, it } from "vitest";
import { marksAfter, type BurstMark, type StreamKind, type StreamObservation } from "../../../src/core/slices.ts";
import type { BurstMarksResult, Charging } from "../../../src/ports/ledger.ts";
import { StreamMarks } from "../../../src/request/stream-marks.ts";
import { silentLog } from "../../support/captured-log.ts";
import { manualClock } from "../../support/manual-clock.ts";
import { stillClock } from "../../support/still-clock.ts";

it("reads the marks again after a read that failed", async () => {
  const reads: Promise<BurstMarksResult>[] = [
    Promise.reject(new Error("the primary has died")),
    Promise.resolve({ ok: true, marks: [{ key: "alice", model: "m", at: 0, live: 0 }] }),
  ];
  const marks = new StreamMarks({
    ledger: { burstMarks: () => reads.shift() } as unknown as Charging,
    clock: stillClock(),
    events: { streamBurst: () => undefined },
    log: silentLog,
    background: () => undefined,
  });
  await expect(marks.isMarked("alice", "m")).rejects.toThrow("the primary has died");
  expect(await marks.isMarked("alice", "m")).toBe(true);
  expect(await marks.isMarked("bob", "m")).toBe(false);
});

it("records a burst once a minute for a key and a model, and counts each", async () => {
  const clock = manualClock(0);
  const recorded: (StreamObservation | null)[] = [];
  const work: Promise<void>[] = [];
  let marked: readonly BurstMark[] = [];
  let counted = 0;
  const ledger = {
    async burstMarks(seen: StreamObservation | null, at: number): Promise<BurstMarksResult> {
      recorded.push(seen);
      if (seen !== null) marked = marksAfter(marked, seen, at);
      return { ok: true, marks: marked };
    },
  } as unknown as Charging;
  const marks = new StreamMarks({
    ledger,
    clock,
    events: { streamBurst: () => void counted++ },
    log: silentLog,
    background: (task) => void work.push(task),
  });
  const see = async (key: string, kind: StreamKind) => {
    marks.record(key, "m", kind);
    await Promise.all(work);
  };
  const [burst, live] = [
    { key: "alice", model: "m", kind: "burst" } as const,
    { key: "alice", model: "m", kind: "live" },
  ];
  await see("alice", "burst");
  clock.advance(59_999);
  await see("alice", "burst");
  expect(recorded).toEqual([burst]);
  clock.advance(1);
  await see("alice", "burst");
  expect(recorded).toEqual([burst, burst]);
  await see("alice", "live");
  await see("alice", "burst");
  expect(recorded, "a burst resets the count of live streams").toEqual([burst, burst, live, burst]);
  clock.set(-3_600_000);
  await see("alice", "burst");
  await see("bob", "burst");
  expect(recorded).toHaveLength(6);
  expect(marked.map(({ key }) => key)).toEqual(["alice", "bob", "*"]);
  expect(counted).toBe(6);
});
