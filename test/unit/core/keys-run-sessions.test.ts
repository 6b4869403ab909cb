import { describe, expect, it } from "vitest";
import {
  hasRoomForSession,
  isSecretReplaced,
  isTagName,
  runBudgetKeptMs,
  runSessionMsMax,
  runSessionsKeptMax,
  runSessionsMax,
  runSessionStates,
  scopeOfSession,
  stateOfSession,
  tagsMax,
  tagValueBytesMax,
  type Key,
  type RunSession,
} from "../../../src/core/keys.ts";

const noon = Date.parse("2026-11-20T12:00:00Z");
const session = (more: Partial<RunSession> = {}): RunSession => ({
  id: "run_1",
  key: "k1",
  tags: {},
  budget: null,
  createdAt: noon,
  expiresAt: noon + 1000,
  endedAt: null,
  ...more,
});

it("its limits are 12 hours, 100 open ones, a thousand kept ones, and an hour for the budget of one that has ended", () => {
  expect([runSessionMsMax, runSessionsMax, runSessionsKeptMax, runBudgetKeptMs]).toEqual([
    43_200_000, 100, 1000, 3_600_000,
  ]);
});

it.each([
  [{ open: 99, kept: 999 }, true],
  [{ open: 100, kept: 100 }, false],
  [{ open: 0, kept: 1000 }, false],
])("a key that has %o may begin another session: %s", (has, may) => {
  expect(hasRoomForSession(has)).toBe(may);
});

describe("a session", () => {
  it("is open until it expires or is ended", () => {
    expect(runSessionStates).toEqual(["open", "ended", "expired"]);
    expect(stateOfSession(session(), noon + 999)).toBe("open");
    expect(stateOfSession(session(), noon + 1000)).toBe("expired");
    expect(stateOfSession(session({ endedAt: 0 }), noon)).toBe("ended");
    expect(stateOfSession(session({ endedAt: noon }), noon + 1000)).toBe("ended");
  });

  it("has a scope of its key and of itself", () => {
    expect(scopeOfSession(session())).toStrictEqual({ kind: "key", key: "k1", session: "run_1" });
  });

  it.each<[string, Pick<Key, "rotatedAt" | "previous">, number, boolean]>([
    ["a key that was never rotated", { rotatedAt: null, previous: null }, noon, false],
    ["a rotation at its beginning", { rotatedAt: noon, previous: null }, noon, false],
    ["a rotation after it, without an overlap", { rotatedAt: noon + 1, previous: null }, noon + 1, true],
    [
      "an overlap that goes on",
      { rotatedAt: noon + 1, previous: { digest: "", validUntil: noon + 9 } },
      noon + 8,
      false,
    ],
    [
      "an overlap that is over",
      { rotatedAt: noon + 1, previous: { digest: "", validUntil: noon + 9 } },
      noon + 9,
      true,
    ],
  ])("with %s", (_what, key, at, isOver) => {
    expect(isSecretReplaced(session(), key as Key, at)).toBe(isOver);
  });
});

it("a tag's name is as that of a key", () => {
  const names = ["a", "7", "app", "a.b_c-d", "a".repeat(63)];
  const others = ["", "A", "-a", ".a", "a b", "ä", "a".repeat(64), "a=b", " a"];
  expect([...names, ...others].filter(isTagName)).toEqual(names);
  expect([tagsMax, tagValueBytesMax]).toEqual([8, 128]);
});
