import { eachKeyScope, everyRequest, keyScope } from "../../../src/core/scope.ts";
import { describe, expect, it } from "vitest";
import {
  adminFailures,
  adminRoles,
  fareboxAdmin,
  reservedAdminNames,
  settingsAdmin,
  type Admin,
  type Key,
  type KeyChange,
  type Team,
} from "../../../src/core/keys.ts";
import {
  adminDetails,
  adminEntry,
  budgetDetails,
  budgetObject,
  budgetRaiseEntry,
  budgetRemoveEntry,
  budgetSetEntry,
  changesAnything,
  correctionEntry,
  keyAction,
  keyDetails,
  keyEntry,
  keyObject,
  operatingSystemUser,
  raiseDenyEntry,
  sessionEntry,
  proxyEndEntry,
  teamDetails,
  teamEntry,
  type NewAuditEntry,
} from "../../../src/core/audit.ts";
import type { Budget } from "../../../src/core/budget.ts";
import { usd, type PicoUsd } from "../../../src/core/money.ts";

const made = { at: 7, by: "env" };
const limits = { rpm: 1, tpm: null, parallel: 3 };
const key: Key = {
  id: "k1",
  name: "alice",
  team: "red",
  digest: "secret",
  models: ["a*"],
  limits,
  outputCap: 500,
  hostedTools: "remove",
  labels: {},
  tags: {},
  user: null,
  requires: [],
  createdAt: 0,
  expiresAt: 1000,
  revokedAt: 2000,
  suspendedAt: null,
  rotatedAt: 3000,
  previous: { digest: "secret", validUntil: 4000 },
};
const admin: Admin = {
  id: "a1",
  name: "root",
  role: "editor",
  digest: "secret",
  createdAt: 0,
  expiresAt: 1000,
  revokedAt: null,
};
const team: Team = { name: "red", models: null, limits, outputCap: null, hostedTools: null, createdAt: 0 };
const budget: Omit<Budget, "id"> = {
  scope: keyScope("k1"),
  period: "1d",
  mode: "hard",
  limit: usd("5"),
  warnPercent: 80,
};
const nameOf = (id: string) => (id === "k1" ? "alice" : undefined);

describe("audit details", () => {
  it("contain everything of a key except its digests", () => {
    expect(keyDetails(key)).toEqual({
      id: "k1",
      name: "alice",
      team: "red",
      models: ["a*"],
      limits,
      output_cap: 500,
      hosted_tools: "remove",
      created_at: "1970-01-01T00:00:00.000Z",
      expires_at: "1970-01-01T00:00:01.000Z",
      labels: {},
      tags: {},
      user: null,
      requires: [],
      revoked_at: "1970-01-01T00:00:02.000Z",
      suspended_at: null,
      rotated_at: "1970-01-01T00:00:03.000Z",
      previous_valid_until: "1970-01-01T00:00:04.000Z",
    });
    expect(keyDetails({ ...key, expiresAt: null, revokedAt: null, rotatedAt: null, previous: null })).toMatchObject({
      expires_at: null,
      revoked_at: null,
      rotated_at: null,
      previous_valid_until: null,
    });
  });

  it("contain everything of an admin except the digest", () => {
    expect(adminDetails(admin)).toEqual({
      id: "a1",
      name: "root",
      role: "editor",
      created_at: "1970-01-01T00:00:00.000Z",
      expires_at: "1970-01-01T00:00:01.000Z",
      revoked_at: null,
    });
  });

  it("contain everything of a team and a budget", () => {
    expect(teamDetails(team)).toEqual({
      name: "red",
      models: null,
      limits,
      output_cap: null,
      hosted_tools: null,
      created_at: "1970-01-01T00:00:00.000Z",
    });
    expect(budgetDetails(budget, nameOf)).toEqual({
      scope: "key:alice",
      period: "1d",
      mode: "hard",
      limit_usd: "5.00",
      warn_percent: 80,
    });
  });
});

describe("an audit entry", () => {
  it.each<[string, NewAuditEntry, object]>([
    [
      "of a new key",
      keyEntry("keys.create", null, key, made),
      { action: "keys.create", object: "key:alice", before: null, after: keyDetails(key) },
    ],
    [
      "of a changed key",
      keyEntry("keys.update", { ...key, team: null }, key, made),
      {
        action: "keys.update",
        object: "key:alice",
        before: keyDetails({ ...key, team: null }),
        after: keyDetails(key),
      },
    ],
    [
      "of a new admin",
      adminEntry("admins.create", null, admin, made),
      { action: "admins.create", object: "admin:root", before: null, after: adminDetails(admin) },
    ],
    [
      "of a revoked admin",
      adminEntry("admins.revoke", admin, { ...admin, revokedAt: 9 }, made),
      {
        action: "admins.revoke",
        object: "admin:root",
        before: adminDetails(admin),
        after: adminDetails({ ...admin, revokedAt: 9 }),
      },
    ],
    [
      "of a new team",
      teamEntry("teams.create", null, team, made),
      { action: "teams.create", object: "team:red", before: null, after: teamDetails(team) },
    ],
    [
      "of a deleted team",
      teamEntry("teams.remove", team, null, made),
      { action: "teams.remove", object: "team:red", before: teamDetails(team), after: null },
    ],
    [
      "of a missing team",
      teamEntry("teams.remove", null, null, made),
      { action: "teams.remove", object: "team:", before: null, after: null },
    ],
    [
      "of a new budget",
      budgetSetEntry(budget, undefined, nameOf, made),
      {
        action: "budgets.set",
        object: "budget:key:alice/1d",
        before: null,
        after: budgetDetails(budget, nameOf),
      },
    ],
    [
      "of a changed budget",
      budgetSetEntry(budget, { ...budget, limit: usd("4") }, nameOf, made),
      {
        action: "budgets.set",
        object: "budget:key:alice/1d",
        before: budgetDetails({ ...budget, limit: usd("4") }, nameOf),
        after: budgetDetails(budget, nameOf),
      },
    ],
    [
      "of a removed budget",
      budgetRemoveEntry(budget, nameOf, made),
      {
        action: "budgets.remove",
        object: "budget:key:alice/1d",
        before: budgetDetails(budget, nameOf),
        after: null,
      },
    ],
    [
      "of a proxy that was ended",
      proxyEndEntry({ name: "one", run: 3, state: "dead", holds: 2, held: usd("0.5") }, made),
      {
        action: "proxies.end",
        object: "proxy:one",
        before: { run: 3, state: "dead", holds: 2, held_usd: "0.50" },
        after: { run: 3, state: "ended", holds: 0, held_usd: "0.00" },
      },
    ],
    [
      "of a correction",
      correctionEntry("c1", { id: "c2", ...made, amount: usd("0.25"), why: "refund" }, usd("1")),
      {
        action: "charges.adjust",
        object: "charge:c1",
        before: { cost_usd: "1.00" },
        after: { cost_usd: "1.25", correction: "c2", amount_usd: "0.25", why: "refund" },
      },
    ],
    [
      "of a correction of a charge without a price",
      correctionEntry("c1", { id: "c2", ...made, amount: -usd("0.25") as PicoUsd, why: "refund" }, null),
      {
        action: "charges.adjust",
        object: "charge:c1",
        before: { cost_usd: null },
        after: { cost_usd: "-0.25", correction: "c2", amount_usd: "-0.25", why: "refund" },
      },
    ],
  ])("%s states who did what and when", (_, entry, expected) => {
    expect(entry).toEqual({ ...made, ...expected });
    expect(JSON.stringify(entry)).not.toContain("secret");
  });

  it("is needed only for a change of a recorded field", () => {
    expect(changesAnything(keyEntry("keys.update", key, { ...key }, made))).toBe(false);
    expect(changesAnything(keyEntry("keys.update", key, { ...key, team: null }, made))).toBe(true);
    expect(changesAnything(keyEntry("keys.update", key, { ...key, digest: "another" }, made))).toBe(false);
  });

  it("names keys, budgets and operating system users", () => {
    expect([
      keyObject(key),
      budgetObject({ scope: everyRequest, period: "1h" }, nameOf),
      operatingSystemUser("root"),
    ]).toEqual(["key:alice", "budget:all/1h", "os:root"]);
  });

  const secret = { digest: "d", madeAt: 1, previousValidUntil: null };
  it.each<[KeyChange, string]>([
    [{}, "keys.update"],
    [{ team: null }, "keys.update"],
    [{ secret }, "keys.rotate"],
    [{ suspendedAt: 5 }, "keys.suspend"],
    [{ suspendedAt: 0 }, "keys.suspend"],
    [{ suspendedAt: null }, "keys.resume"],
    [{ suspendedAt: undefined }, "keys.update"],
    [{ suspendedAt: 5, secret }, "keys.suspend"],
    [{ suspendedAt: null, secret }, "keys.resume"],
  ])("of the key change %j has the action %s", (change, action) => {
    expect(keyAction(change)).toBe(action);
  });

  it("may have farebox or env as its author, so admins cannot use these names", () => {
    expect([settingsAdmin, fareboxAdmin, reservedAdminNames]).toEqual(["env", "farebox", ["env", "farebox"]]);
    expect([adminRoles, adminFailures]).toEqual([
      ["viewer", "editor"],
      ["missing", "unknown", "expired", "revoked", "too_many"],
    ]);
  });
});

it.each([
  [null, null],
  [usd("0.5"), "0.50"],
])("the audit entry of a session with the budget %s states its key, expiry and tags", (budget, shown) => {
  const session = { id: "run_1", key: "k1", tags: { app: "x" }, budget, createdAt: 0, expiresAt: 1000, endedAt: null };
  expect(sessionEntry(session, { name: "alice" }, "root")).toStrictEqual({
    at: 0,
    by: "root",
    action: "sessions.create",
    object: "session:run_1",
    before: null,
    after: { key: "alice", expires_at: "1970-01-01T00:00:01.000Z", budget_usd: shown, tags: { app: "x" } },
  });
});

describe("the audit entry of a raise", () => {
  const raise = { amount: usd("2.5"), from: 1000, until: 2000, subject: "k1", why: "a launch" };
  const perKey = { ...budget, scope: eachKeyScope("red") };

  it.each<[string, Omit<Budget, "id">, Partial<typeof raise> | { until: null }, string, object]>([
    ["names no subject for a budget without subjects", budget, {}, "budget:key:alice/1d", {}],
    ["names the key whose window is raised", perKey, {}, "budget:each-key:red/1d", { subject: "key=alice" }],
    [
      "names the window of requests without a key",
      perKey,
      { subject: "" },
      "budget:each-key:red/1d",
      { subject: "no key" },
    ],
    ["states no end for a permanent raise", budget, { until: null }, "budget:key:alice/1d", { until: null }],
  ])("%s", (_, of, changes, object, expected) => {
    expect(budgetRaiseEntry(of, { ...raise, ...changes }, nameOf, made)).toStrictEqual({
      ...made,
      action: "budgets.raise",
      object,
      before: null,
      after: {
        ...budgetDetails(of, nameOf),
        amount_usd: "2.50",
        starts_at: "1970-01-01T00:00:01.000Z",
        until: "1970-01-01T00:00:02.000Z",
        why: "a launch",
        ...expected,
      },
    });
  });

  it.each<[string, Omit<Budget, "id">, string, object]>([
    ["a budget without subjects", budget, "budget:key:alice/1d", {}],
    ["the window of a key", perKey, "budget:each-key:red/1d", { subject: "key=alice" }],
  ])("that was requested and denied names %s", (_, of, object, subject) => {
    const request = { id: "raise_1", budget: of, subject: "k1", amount: usd("2.5"), why: "a launch" };
    const asked = { request: "raise_1", ...subject, amount_usd: "2.50", why: "a launch" };
    expect(raiseDenyEntry(request, nameOf, made)).toStrictEqual({
      ...made,
      action: "raises.deny",
      object,
      before: { ...asked, state: "open" },
      after: { ...asked, state: "denied" },
    });
  });
});
