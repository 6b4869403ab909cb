import { expect, it } from "vitest";
import type { BurstMarksResult, Charging } from "../../../src/ports/ledger.ts";
import { createStreamMarks } from "../../../src/request/stream-marks.ts";
import { silentLog } from "../../support/captured-log.ts";
import { stillClock } from "../../support/still-clock.ts";

it("reads the marks again after a read that failed", async () => {
  const reads: Promise<BurstMarksResult>[] = [
    Promise.reject(new Error("the primary has died")),
    Promise.resolve({ ok: true, marks: [{ key: "alice", model: "m", at: 0, live: 0 }] }),
  ];
  const marks = createStreamMarks({
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
