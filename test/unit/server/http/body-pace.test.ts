import { describe, expect, it } from "vitest";
import { BodyPace, bodyPace } from "../../../../src/server/http/body-pace.ts";
import { manualClock } from "../../../support/manual-clock.ts";

/** A body on a clock of its own. */
function watched() {
  const clock = manualClock();
  let isGivenUp = false;
  const pace = new BodyPace(clock, () => (isGivenUp = true));
  /** One whole time, in which so many bytes come. */
  const time = (bytes: number) => {
    pace.came(bytes);
    clock.advance(bodyPace.ms);
    return isGivenUp;
  };
  return { clock, pace, time };
}

describe("a body that is being read", () => {
  it("is read on for as long as it moves", () => {
    const { time } = watched();
    for (let minute = 0; minute < 120; minute++) expect(time(bodyPace.bytes)).toBe(false);
  });

  it("is abandoned where it stops, or drips", () => {
    const { time } = watched();
    expect(time(1_000_000)).toBe(false);
    expect(time(bodyPace.bytes - 1)).toBe(true);
  });

  it("is not hurried where it was asked to wait", () => {
    const { pace, time } = watched();
    pace.pause();
    expect(time(0)).toBe(false);
    expect(time(0)).toBe(false);
    pace.resume();
    expect(time(0), "a part of this time was ours").toBe(false);
    expect(time(0)).toBe(true);
  });

  it("is forgotten when it has come", () => {
    const { clock, pace, time } = watched();
    pace.stop();
    expect(time(0)).toBe(false);
    expect(clock.waiting).toBe(0);
  });
});
