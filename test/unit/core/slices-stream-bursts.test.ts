import { describe, expect, it } from "vitest";
import {
  BurstDetector,
  everyKey,
  liveStreamsMin,
  markKeptMs,
  markMs,
  marksAfter,
  streamKinds,
  type BurstMark,
} from "../../../src/core/slices.ts";

const noon = Date.parse("2026-11-20T12:00:00Z");
const burst = (key: string) => ({ key, model: "m", kind: "burst" }) as const;
const live = (key: string) => ({ key, model: "m", kind: "live" }) as const;
const mark = (key: string, more: Partial<BurstMark> = {}): BurstMark => ({
  key,
  model: "m",
  at: noon,
  live: 0,
  ...more,
});

it("the stream kinds and the mark of every key have fixed names", () => {
  expect(streamKinds).toEqual(["live", "burst"]);
  expect(everyKey).toBe("*");
});

describe("a burst mark", () => {
  it("applies to its key, and to every key if a second key has a burst within the hour", () => {
    const first = marksAfter([], burst("a"), noon);
    expect(first).toEqual([mark("a")]);
    expect(marksAfter(first, burst("a"), noon + 1)).toEqual([mark("a", { at: noon + 1 })]);
    const late = noon + markMs;
    expect(marksAfter(first, burst("b"), late)).toEqual([mark("a"), mark("b", { at: late })]);
    expect(marksAfter(first, burst("b"), late - 1)).toEqual([
      mark("a"),
      mark("b", { at: late - 1 }),
      mark(everyKey, { at: late - 1 }),
    ]);
  });

  it("ends after an hour and three live streams, whichever comes last", () => {
    const after = (streams: number, lastAt: number) =>
      Array.from({ length: streams }, (_, index) => index).reduce<BurstMark[]>(
        (marks, index) => marksAfter(marks, live("a"), index === streams - 1 ? lastAt : noon + 1),
        [mark("a")],
      );
    expect(after(liveStreamsMin, noon + markMs)).toEqual([]);
    expect(after(liveStreamsMin - 1, noon + markMs)).toHaveLength(1);
    expect(after(liveStreamsMin, noon + markMs - 1)).toHaveLength(1);
  });

  it("restarts with another burst, and ends if the clock was set back", () => {
    expect(marksAfter([mark("a", { live: 2 })], burst("a"), noon + 9)).toEqual([mark("a", { at: noon + 9 })]);
    expect(marksAfter([mark("a", { live: 2 })], live("a"), noon - markMs)).toEqual([]);
  });

  it("of every key ends with the live streams of any key, unlike the mark of another key", () => {
    const marks = [mark("a", { live: 2 }), mark(everyKey, { live: 2 })];
    expect(marksAfter(marks, live("b"), noon + markMs)).toEqual([mark("a", { live: 2 })]);
  });

  it("of every key restarts with a burst of any key, at any age", () => {
    const late = noon + 2 * markMs;
    expect(marksAfter([mark(everyKey)], burst("a"), late)).toEqual([
      mark("a", { at: late }),
      mark(everyKey, { at: late }),
    ]);
  });

  it("is forgotten after 30 days", () => {
    const kept = mark("a", { at: noon - markKeptMs });
    const forgotten = mark("b", { at: noon - markKeptMs - 1 });
    expect(marksAfter([kept, forgotten], live("c"), noon)).toEqual([kept]);
  });
});

describe("a stream", () => {
  const newDetector = () => new BurstDetector({ sliceTokens: 1024 });

  it("is a burst if more than the reserve arrives at once, in any chunks, and reports it once", () => {
    const all = newDetector();
    all.wrote(1025);
    expect([all.update(0, 0), all.isLive]).toEqual([true, false]);
    all.wrote(1025);
    expect(all.update(1, 0)).toBe(false);
    const pieces = newDetector();
    expect(
      Array.from({ length: 11 }, (_, at) => {
        pieces.wrote(100);
        return pieces.update(at, 0);
      }).indexOf(true),
    ).toBe(10);
  });

  it("is live if it arrives over time, and neither if it is too short", () => {
    const slow = newDetector();
    for (let at = 0; at <= 20; at++) {
      slow.wrote(1000);
      expect(slow.update(at * 101, 0)).toBe(false);
      expect(slow.isLive).toBe(at > 0);
    }
  });

  it("is a burst if it exceeds the reserve within a tenth of a second, and live if later", () => {
    const tenth = newDetector();
    tenth.wrote(1000);
    tenth.update(0, 0);
    tenth.wrote(25);
    expect(tenth.update(100, 0)).toBe(true);
    const later = newDetector();
    for (const [at, bytes] of [1000, 24, 1].entries()) {
      later.wrote(bytes);
      expect([later.update(at * 101, 0), later.isLive]).toEqual([false, at === 2]);
    }
  });

  it("is no burst if it exceeds the reserve by half a token for each millisecond in which nothing was read", () => {
    for (const [bytes, isBurst] of [
      [1024 + 20, false],
      [1024 + 21, true],
    ] as const) {
      const paused = newDetector();
      paused.update(0, 0);
      paused.wrote(bytes);
      expect(paused.update(10, 10)).toBe(isBurst);
    }
  });

  it("is no burst if it delivers text that was generated while nothing was read", () => {
    const paused = newDetector();
    paused.wrote(10);
    expect(paused.update(0, 0)).toBe(false);
    paused.wrote(1024 + 2000);
    expect(paused.update(1500, 1000)).toBe(false);
    paused.wrote(1025);
    expect(paused.update(3000, 1000)).toBe(true);
  });

  it("is no burst if it delivers the reserve of a large slice at once, or 256 tokens with a small slice", () => {
    const choices = new BurstDetector({ sliceTokens: 4096 });
    choices.wrote(4096);
    expect(choices.update(0, 0)).toBe(false);
    const small = new BurstDetector({ sliceTokens: 64 });
    small.wrote(1024);
    expect(small.update(0, 0)).toBe(false);
  });
});
