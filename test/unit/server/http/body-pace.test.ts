import { describe, expect, it } from "vitest";
import { BodyPace, bodyPace } from "../../../../src/server/http/body-pace.ts";
import { manualClock } from "../../../support/manual-clock.ts";

/** Creates a pace with a manual clock. */
function watched(stated = 0) {
  const clock = manualClock();
  let isAbandoned = false;
  const pace = new BodyPace(clock, () => (isAbandoned = true), stated);
  /** Lets one period pass, in which the given bytes arrive. */
  const passPeriod = (bytes: number) => {
    pace.received(bytes);
    clock.advance(bodyPace.ms);
    return isAbandoned;
  };
  return { clock, pace, passPeriod };
}

describe("a body that is being read", () => {
  it("may take twenty minutes, however long it is", () => {
    for (const stated of [20_480, 1_000_000, 32 * 1024 ** 2]) {
      const part = Math.ceil(stated / bodyPace.parts);
      const { passPeriod } = watched(stated);
      for (let minute = 0; minute < bodyPace.parts; minute++) expect(passPeriod(part)).toBe(false);
      expect(watched(stated).passPeriod(part - 1)).toBe(true);
    }
  });

  it("of no stated length must grow by a twentieth in each period", () => {
    const { passPeriod } = watched();
    expect(passPeriod(bodyPace.bytes)).toBe(false);
    expect(passPeriod(1_000_000)).toBe(false);
    expect(passPeriod(50_052)).toBe(false);
    expect(passPeriod(52_000)).toBe(true);
  });

  it("is abandoned if it is too slow in one period", () => {
    const { passPeriod } = watched();
    expect(passPeriod(bodyPace.bytes)).toBe(false);
    expect(passPeriod(bodyPace.bytes - 1)).toBe(true);
  });

  it("is not abandoned for a period in which it was paused", () => {
    const { pace, passPeriod } = watched();
    pace.pause();
    expect(passPeriod(0)).toBe(false);
    expect(passPeriod(0)).toBe(false);
    pace.resume();
    expect(passPeriod(0), "the body was paused for a part of this period").toBe(false);
    expect(passPeriod(0)).toBe(true);
  });

  it("is abandoned although it was paused for a moment, as a worker does to ask for memory", () => {
    const { clock, pace, passPeriod } = watched();
    pace.pause();
    clock.advance(5);
    pace.resume();
    expect(passPeriod(0)).toBe(true);
    const other = watched();
    other.pace.pause();
    other.clock.advance(1000);
    other.pace.resume();
    expect(other.passPeriod(0)).toBe(false);
  });

  it("has no timer once it is complete", () => {
    const { clock, pace, passPeriod } = watched();
    pace.stop();
    expect(passPeriod(0)).toBe(false);
    expect(clock.waiting).toBe(0);
  });
});
