import { eachKeyScope, teamScope } from "../../src/core/scope.ts";
import { describe, expect, it } from "vitest";
import { noRateLimits } from "../../src/core/rate-limits.ts";
import type { Team } from "../../src/core/keys.ts";
import type { KeyPageQuery } from "../../src/ports/stores.ts";
import { budget, key, ledgerKinds, noon, type LedgerKind } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

async function opened(kind: LedgerKind) {
  const home = kind.newHome(manualClock(noon));
  const store = await home.open();
  let changes = 0;
  store.changes.onChange(() => changes++);
  return {
    ...store,
    changes: () => changes,
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await home[Symbol.asyncDispose]();
    },
  };
}

function team(name: string, more: Partial<Team> = {}): Team {
  return { name, models: null, limits: noRateLimits, outputCap: null, hostedTools: null, createdAt: noon, ...more };
}

const limits = { rpm: 60, tpm: 1_000_000_000, parallel: 1 };

describe.each(ledgerKinds)("the store of keys and teams: $name", (kind) => {
  it("pages through keys in order of creation, filtered by their state at a given time", async () => {
    await using store = await opened(kind);
    for (const [name, more] of [
      ["a", {}],
      ["b", { expiresAt: noon + 5 }],
      ["c", { revokedAt: noon }],
      ["d", { expiresAt: noon + 6, revokedAt: noon }],
      ["e", {}],
      ["f", { suspendedAt: noon }],
      ["g", { suspendedAt: noon, expiresAt: noon + 5 }],
      ["h", { suspendedAt: noon, revokedAt: noon }],
    ] as const) {
      await store.keys.create(key(name, more));
    }
    const page = async (query: Partial<KeyPageQuery>) => {
      const { keys, next } = await store.keys.page({ limit: 10, at: noon + 5, ...query });
      return [...keys.map(({ name }) => name), next];
    };
    expect(await page({})).toEqual(["a", "b", "c", "d", "e", "f", "g", "h", null]);
    expect(await page({ limit: 2 })).toEqual(["a", "b", "id-b"]);
    expect(await page({ limit: 3, after: "id-b" })).toEqual(["c", "d", "e", "id-e"]);
    expect(await page({ state: "live" })).toEqual(["a", "e", null]);
    expect(await page({ state: "live", at: noon + 4, limit: 1, after: "id-a" })).toEqual(["b", "id-b"]);
    expect(await page({ state: "suspended" })).toEqual(["f", null]);
    expect(await page({ state: "suspended", at: noon + 4 })).toEqual(["f", "g", null]);
    expect(await page({ state: "expired" })).toEqual(["b", "g", null]);
    expect(await page({ state: "revoked" })).toEqual(["c", "d", "h", null]);
    expect(await page({ after: "id-none" })).toEqual([null]);
  });

  it("stores keys, and never reuses a name", async () => {
    await using store = await opened(kind);
    const full = key("full", {
      team: "red",
      models: ["gpt-*"],
      limits,
      outputCap: 500,
      hostedTools: "remove",
      labels: { env: "prod", region: "a b=c" },
      tags: { team: "x" },
      user: "Zoë 🦊",
      requires: ["tag:session", "user"],
      expiresAt: noon + 9,
      previous: { digest: "d0", validUntil: noon + 5 },
    });
    expect(await store.keys.create(full)).toEqual({ ok: true });
    expect(await store.keys.create(key("second"))).toEqual({ ok: true });
    expect(store.changes()).toBe(2);
    expect(await store.keys.revoke("id-full", noon + 1)).toBe(true);
    expect(await store.keys.revoke("id-full", noon + 2)).toBe(true);
    expect(await store.keys.revoke("id-none", noon)).toBe(false);
    expect(await store.keys.create(key("full", { id: "other", digest: "d" }))).toEqual({
      ok: false,
      reason: "name_taken",
    });
    expect(await store.keys.findById("id-full")).toEqual({ ...full, revokedAt: noon + 1 });
    expect(await store.keys.find("second")).toEqual(key("second"));
    expect(await store.keys.find("id-second")).toEqual(key("second"));
    expect(await store.keys.findById("second")).toBeUndefined();
    expect((await store.keys.list()).map(({ name }) => name)).toEqual(["full", "second"]);
  });

  it("changes only the named fields of a key, and returns their previous values", async () => {
    await using store = await opened(kind);
    const first = key("a", { team: "red", limits, expiresAt: noon + 9 });
    await store.keys.create(first);
    const second = { ...first, limits: { ...limits, rpm: null }, models: ["m"] };
    expect(
      await store.keys.update("id-a", { limits: { rpm: null }, models: ["m"], team: undefined }, noon + 1),
    ).toEqual({ before: first, after: second });
    const third = {
      ...second,
      team: null,
      expiresAt: null,
      outputCap: 700,
      hostedTools: "allow",
      suspendedAt: noon,
      labels: { a: "1" },
      user: "u",
      requires: ["user"],
    };
    const change = {
      team: null,
      expiresAt: null,
      outputCap: 700,
      hostedTools: "allow",
      suspendedAt: noon,
      labels: { a: "1" },
      user: "u",
      requires: ["user"],
    } as const;
    expect(await store.keys.update("id-a", change, noon + 2)).toEqual({
      before: second,
      after: third,
    });
    expect(await store.keys.find("a")).toEqual(third);
    expect(store.changes()).toBe(3);
    expect(await store.keys.update("id-b", { team: "blue" }, noon)).toBeUndefined();
    expect((await store.teams.list()).map(({ name }) => name)).toEqual(["red"]);
  });

  it("gives a key a new secret, and keeps the previous one only if that stays valid for a while", async () => {
    await using store = await opened(kind);
    const first = key("a");
    await store.keys.create(first);
    await store.keys.update(
      "id-a",
      { secret: { digest: "d2", madeAt: noon + 1, previousValidUntil: noon + 5 } },
      noon + 1,
    );
    expect(await store.keys.find("a")).toEqual({
      ...first,
      digest: "d2",
      rotatedAt: noon + 1,
      previous: { digest: first.digest, validUntil: noon + 5 },
    });
    await store.keys.update("id-a", { secret: { digest: "d3", madeAt: noon + 2, previousValidUntil: null } }, noon + 2);
    expect(await store.keys.find("a")).toEqual({ ...first, digest: "d3", rotatedAt: noon + 2, previous: null });
  });

  it("creates a team with the first key that is assigned to it", async () => {
    await using store = await opened(kind);
    await store.keys.create(key("a", { team: "red" }));
    await store.keys.create(key("b", { team: "red", createdAt: noon + 1 }));
    await store.keys.update("id-b", { team: "blue" }, noon + 2);
    expect(await store.teams.list()).toEqual([team("red"), team("blue", { createdAt: noon + 2 })]);
  });

  it("stores teams, and changes only the named fields", async () => {
    await using store = await opened(kind);
    const red = team("red", { models: ["gpt-*"], limits });
    expect(await store.teams.create(red)).toEqual({ ok: true });
    expect(await store.teams.create(team("red"))).toEqual({ ok: false, reason: "name_taken" });
    await store.keys.create(key("a", { team: "red" }));
    const changed = {
      ...red,
      models: null,
      limits: { ...limits, tpm: 5 },
      outputCap: 9,
      hostedTools: "refuse",
    } as const;
    const change = { models: null, limits: { tpm: 5 }, outputCap: 9, hostedTools: "refuse" } as const;
    expect(await store.teams.update("red", change, noon)).toEqual({ before: red, after: changed });
    expect(await store.teams.find("red")).toEqual(changed);
    expect(await store.teams.update("blue", { models: null }, noon)).toBeUndefined();
    expect(await store.teams.find("blue")).toBeUndefined();
    expect(store.changes()).toBeGreaterThanOrEqual(3);
  });

  it("removes a team only if no live key and no budget names it, and restores it when a key of it becomes live", async () => {
    await using store = await opened(kind);
    const eachUser = { dimension: "user", name: "", value: null } as const;
    const eachUserOfRed = { conditions: [...teamScope("red").conditions, eachUser] };
    expect(await store.teams.remove("red", noon)).toEqual({ ok: false, reason: "no_such_team" });
    await store.keys.create(key("a", { team: "red" }));
    await store.keys.create(key("b", { team: "red", expiresAt: noon + 5 }));
    await store.ledger.setBudget(budget(teamScope("red"), "1d", "1"), noon);
    await store.ledger.setBudget(budget(eachKeyScope("red"), "1d", "1"), noon);
    await store.ledger.setBudget(budget(teamScope("redder"), "1d", "1"), noon);
    await store.ledger.setBudget(budget(eachUserOfRed, "1d", "1"), noon);
    expect(await store.teams.remove("red", noon + 4)).toEqual({
      ok: false,
      reason: "in_use",
      keys: ["a", "b"],
      budgets: ["team:red", "each-key:red", "team:red each-user"],
    });
    await store.keys.revoke("id-a", noon + 4);
    await store.ledger.removeBudget("team:red each-user", "1d", noon);
    await store.ledger.removeBudget("team:red", "1d", noon);
    await store.ledger.removeBudget("team:red each-key", "1d", noon);
    expect(await store.teams.remove("red", noon + 4)).toMatchObject({ keys: ["b"], budgets: [] });
    expect(await store.teams.remove("red", noon + 5)).toEqual({ ok: true, before: team("red") });
    expect(await store.teams.list()).toEqual([]);
    // The expired key becomes live again, so its team is restored.
    await store.keys.update("id-b", { expiresAt: null }, noon + 6);
    expect(await store.teams.list()).toEqual([team("red", { createdAt: noon + 6 })]);
  });

  it("audits each change of keys and teams, including teams created with a key, without digests", async () => {
    await using store = await opened(kind);
    const { keys, teams } = store;
    await keys.create(key("a", { team: "red" }), "carol");
    await keys.update("id-a", { limits: { rpm: 5 } }, noon + 1, "carol");
    await keys.update("id-a", { limits: { rpm: 5 } }, noon + 2, "carol");
    await keys.update(
      "id-a",
      { secret: { digest: "d2", madeAt: noon + 3, previousValidUntil: null } },
      noon + 3,
      "dave",
    );
    await teams.create(team("blue"), "carol");
    await teams.create(team("blue"), "dave");
    await teams.update("blue", { limits: { parallel: 2 } }, noon + 4, "carol");
    await teams.remove("blue", noon + 5, "dave");
    await teams.remove("red", noon + 5, "dave");
    const { entries } = await store.audit.entries({ limit: 100 });
    const noonPlus = (ms: number) => `2026-11-20T12:00:00.00${ms}Z`;
    expect(entries.toReversed()).toMatchObject([
      {
        at: noon,
        by: "carol",
        action: "teams.create",
        object: "team:red",
        before: null,
        after: { name: "red", limits: noRateLimits },
      },
      { at: noon, by: "carol", action: "keys.create", object: "key:a", before: null },
      {
        at: noon + 1,
        by: "carol",
        action: "keys.update",
        object: "key:a",
        before: { limits: noRateLimits },
        after: { limits: { rpm: 5, tpm: null } },
      },
      {
        at: noon + 3,
        by: "dave",
        action: "keys.rotate",
        object: "key:a",
        before: { rotated_at: null },
        after: { rotated_at: noonPlus(3), previous_valid_until: null },
      },
      { at: noon, by: "carol", action: "teams.create", object: "team:blue", before: null },
      {
        at: noon + 4,
        by: "carol",
        action: "teams.update",
        object: "team:blue",
        before: { limits: noRateLimits },
        after: { limits: { parallel: 2 } },
      },
      {
        at: noon + 5,
        by: "dave",
        action: "teams.remove",
        object: "team:blue",
        before: { name: "blue", limits: { parallel: 2 } },
        after: null,
      },
    ]);
    expect(JSON.stringify(entries)).not.toMatch(/digest|"d2"/);
  });
});
