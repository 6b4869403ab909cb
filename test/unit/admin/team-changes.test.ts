import * as fc from "fast-check";
import { beforeEach, describe, expect, it } from "vitest";
import { createKey, revokeKey, rotateKey, updateKey } from "../../../src/admin/key-changes.ts";
import {
  createTeam,
  removeTeam,
  showTeam,
  updateTeam,
  type NewTeam,
  type TeamUpdate,
} from "../../../src/admin/team-changes.ts";
import { rateLimitMax, noRateLimits } from "../../../src/core/rate-limits.ts";
import { memoryStore } from "../../support/ledger-fixtures.ts";
import { manualClock } from "../../support/manual-clock.ts";

function newTools() {
  const { keys, teams } = memoryStore();
  return {
    keys,
    teams,
    clock: manualClock("2026-11-20T12:00:00Z"),
    by: "tester",
  };
}

let tools: ReturnType<typeof newTools>;
beforeEach(() => {
  tools = newTools();
});

describe("a team", () => {
  it.each<[object, string]>([
    [{ name: "Red" }, "name must be 1 to 63 of a-z"],
    [{ name: "red", models: ["gpt 4o"] }, "models must be model names"],
    [{ name: "red", limits: { rpm: 0 } }, "limits.rpm must be a whole number from 1 to 1000000000, or null"],
    [{ name: "red", limits: { tpm: 1.5 } }, "limits.tpm must be a whole number"],
    [{ name: "red", limits: { parallel: -1 } }, "limits.parallel must be a whole number"],
    [{ name: "red", limits: { rpm: 1_000_000_001 } }, "limits.rpm must be a whole number"],
    [{ name: "red", limits: { rpm: "60" } }, "limits.rpm must be a whole number"],
    [{ name: "red", limits: { rpm: Number.NaN } }, "limits.rpm must be a whole number"],
    [{ name: "red", limits: { rps: 5 } }, "limits Unrecognized key"],
    [{ name: "red", rpm: 5 }, "Unrecognized key"],
  ])("created from %j is refused: %s", async (input, message) => {
    const refused = { ok: false, kind: "invalid", message: expect.stringContaining(message) };
    expect(await createTeam(tools, input as NewTeam)).toMatchObject(refused);
    expect(await tools.teams.list()).toEqual([]);
  });

  it("is returned in its new state after each change", async () => {
    const made = await createTeam(tools, { name: "red", limits: { rpm: 5 } });
    expect(made).toMatchObject({
      ok: true,
      team: { name: "red", models: null, limits: { ...noRateLimits, rpm: 5 } },
    });
    const updated = await updateTeam(tools, "red", { limits: { rpm: null, parallel: 2 } });
    expect(updated).toEqual({
      ok: true,
      team: { ...(made.ok && made.team), limits: { ...noRateLimits, parallel: 2 } },
    });
    expect(await removeTeam(tools, "red")).toEqual({ ok: true });
    expect(await showTeam(tools.teams, "red")).toMatchObject({ ok: false, kind: "not_found" });
  });

  it.each<[object, string]>([
    [{}, "no change was given; name at least one setting"],
    [{ limits: {} }, "no change was given; name at least one setting"],
    [{ models: undefined, limits: { rpm: undefined } }, "no change was given; name at least one setting"],
    [{ name: "blue" }, "Unrecognized key"],
    [{ limits: { tpm: 0 } }, "limits.tpm must be a whole number"],
  ])("is not changed by %j: %s", async (change, message) => {
    await createTeam(tools, { name: "red" });
    expect(await updateTeam(tools, "red", change as TeamUpdate)).toMatchObject({
      ok: false,
      kind: "invalid",
      message: expect.stringContaining(message),
    });
  });

  it("is not deleted while keys use it, of which the error names three", async () => {
    for (const name of ["a", "b", "c", "d", "e"]) await createKey(tools, { name, team: "red" });
    expect(await removeTeam(tools, "red")).toEqual({
      ok: false,
      kind: "refused",
      message: "team red is still used by keys a, b, c and 2 more; move, revoke or remove them first",
    });
    await updateKey(tools, "a", { team: "blue" });
    for (const name of ["b", "c", "d", "e"]) await revokeKey(tools, name);
    expect(await removeTeam(tools, "red")).toMatchObject({ ok: true });
  });
});

describe("a key", () => {
  it("accepts a limit only if it is a whole number within the bounds", async () => {
    const fields = fc.constantFrom("rpm", "tpm", "parallel");
    await fc.assert(
      fc.asyncProperty(
        fields,
        fc.oneof(
          fc.integer({ min: -3, max: 3 }),
          fc.integer({ min: rateLimitMax - 2, max: rateLimitMax + 2 }),
          fc.double(),
        ),
        async (field, limit) => {
          const created = await createKey(newTools(), { name: "a", limits: { [field]: limit } });
          expect(created.ok).toBe(Number.isInteger(limit) && limit >= 1 && limit <= rateLimitMax);
          if (created.ok) expect(created.key.limits).toEqual({ ...noRateLimits, [field]: limit });
        },
      ),
    );
  });

  it("is returned in its new state after each change", async () => {
    const made = await createKey(tools, { name: "a", team: "red" });
    if (!made.ok) throw new Error(made.message);
    const updated = await updateKey(tools, made.key.id, { lifetimeMs: 1000, limits: { rpm: 5 } });
    expect(updated).toEqual({
      ok: true,
      key: { ...made.key, expiresAt: made.key.createdAt + 1000, limits: { ...noRateLimits, rpm: 5 } },
    });
    const rotated = await rotateKey(tools, "a", { overlapMs: 0 });
    expect(rotated).toMatchObject({
      ok: true,
      key: { id: made.key.id, limits: { ...noRateLimits, rpm: 5 }, previous: null },
    });
    expect(rotated.ok && rotated.text.startsWith(`sk-fb-${made.key.id}-`)).toBe(true);
  });

  it.each([-1, 0.5, 90 * 86_400_000 + 1, Number.NaN])("is not rotated with an overlap of %d ms", async (overlapMs) => {
    await createKey(tools, { name: "a" });
    expect(await rotateKey(tools, "a", { overlapMs })).toMatchObject({
      ok: false,
      kind: "invalid",
      message: "overlapMs must be whole milliseconds from 0 to 90 days",
    });
  });
});
