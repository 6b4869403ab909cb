import { describe, expect, it } from "vitest";
import {
  adminFailures,
  adminRoles,
  fareboxAdmin,
  mayCreateSession,
  isRunSession,
  isTagName,
  reservedAdminNames,
  runBudgetKeptMs,
  runSessionMsMax,
  runSessionOf,
  runSessionsKeptMax,
  runSessionsMax,
  runSessionStates,
  sessionTag,
  settingsAdmin,
  stateOfSession,
  tagsMax,
  tagValueCharsMax,
  validDigests,
  type Key,
  type RunSession,
} from "../../../src/core/keys.ts";

const noon = Date.parse("2026-11-20T12:00:00Z");
const session = (more: Partial<RunSession> = {}): RunSession => ({
  id: "run_1",
  key: "k1",
  secret: "d1",
  tags: {},
  budget: null,
  createdAt: noon,
  expiresAt: noon + 1000,
  endedAt: null,
  ...more,
});

it("sessions last at most 12 hours; 100 may be open, 1000 are kept, and budgets remain for an hour", () => {
  expect([runSessionMsMax, runSessionsMax, runSessionsKeptMax, runBudgetKeptMs]).toEqual([
    43_200_000, 100, 1000, 3_600_000,
  ]);
});

it.each([
  [{ open: 99, kept: 999 }, true],
  [{ open: 100, kept: 100 }, false],
  [{ open: 0, kept: 1000 }, false],
])("a key with the sessions %o may create another: %s", (has, may) => {
  expect(mayCreateSession(has)).toBe(may);
});

describe("a session", () => {
  it("is open until it expires or is ended", () => {
    expect(runSessionStates).toEqual(["open", "ended", "expired"]);
    expect(stateOfSession(session(), noon + 999)).toBe("open");
    expect(stateOfSession(session(), noon + 1000)).toBe("expired");
    expect(stateOfSession(session({ endedAt: 0 }), noon)).toBe("ended");
    expect(stateOfSession(session({ endedAt: noon }), noon + 1000)).toBe("ended");
  });
});

it.each<[string, Key["previous"], number, readonly string[]]>([
  ["its secret", null, noon, ["d2"]],
  ["both secrets during the overlap of a rotation", { digest: "d1", validUntil: noon + 9 }, noon + 8, ["d2", "d1"]],
  ["its secret alone from the end of the overlap", { digest: "d1", validUntil: noon + 9 }, noon + 9, ["d2"]],
])("a key is opened by %s", (_what, previous, at, digests) => {
  expect(validDigests({ digest: "d2", previous }, at)).toEqual(digests);
});

it("a tag name has the form of a key name", () => {
  const names = ["a", "7", "app", "a.b_c-d", "a".repeat(63)];
  const others = ["", "A", "-a", ".a", "a b", "ä", "a".repeat(64), "a=b", " a"];
  expect([...names, ...others].filter(isTagName)).toEqual(names);
  expect([tagsMax, tagValueCharsMax]).toEqual([8, 128]);
});

it("a session id is run_ and 1 to 40 lowercase letters or digits", () => {
  const ids = ["run_a", "run_0z9", `run_${"a".repeat(40)}`];
  const others = ["", "run_", "run_A", "run_a ", " run_a", "a run_a", "run_-", `run_${"a".repeat(41)}`, "RUN_a"];
  expect([...ids, ...others].filter(isRunSession)).toEqual(ids);
});

it.each<[Readonly<Record<string, string>>, string | null]>([
  [{ session: "run_1", app: "x" }, "run_1"],
  [{ session: "my own" }, null],
  [{ app: "run_1" }, null],
  [Object.create({ session: "run_1" }) as Record<string, string>, null],
])("the tags %j name the session %s", (tags, session) => {
  expect(runSessionOf(tags)).toBe(session);
  expect(sessionTag).toBe("session");
});

it("the names env and farebox are reserved in the audit log", () => {
  expect([settingsAdmin, fareboxAdmin, reservedAdminNames]).toEqual(["env", "farebox", ["env", "farebox"]]);
  expect(adminRoles).toEqual(["viewer", "editor"]);
  expect(adminFailures).toEqual(["missing", "unknown", "expired", "revoked", "too_many"]);
});
