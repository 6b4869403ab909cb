import { everyRequest, keyScope, parseScope } from "../../src/core/scope.ts";
import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { operatingSystemUser } from "../../src/core/audit.ts";
import { noRateLimits } from "../../src/core/rate-limits.ts";
import { usd, type PicoUsd } from "../../src/core/money.ts";
import {
  alice,
  budget,
  endAt,
  holdOf,
  key,
  ledgerKinds,
  noon,
  openStore,
  posting,
  tempFolder,
  utc,
  type LedgerKind,
} from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const root = operatingSystemUser("root");

describe.each(ledgerKinds)("the audit of $name", ({ newHome }: LedgerKind) => {
  it("has an entry for each change, with the values before and after, and no digest", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger, keys, teams } = store;
    await teams.create(
      { name: "red", models: null, limits: noRateLimits, outputCap: null, hostedTools: null, createdAt: noon },
      "carol",
    );
    const full = key("alice", { id: alice.key, team: "red", models: ["gpt-*"], expiresAt: noon + 9 });
    await keys.create(full, "carol");
    await keys.create(key("alice", { id: "another", digest: "d" }), "carol");
    await ledger.setBudget(budget(keyScope(alice.key), "1d", "5"), noon + 1, root);
    await ledger.setBudget({ ...budget(keyScope(alice.key), "1d", "0.5", "soft"), warnPercent: 80 }, noon + 2, root);
    await ledger.removeBudget(`key:${alice.key}`, "1d", noon + 3, root);
    await ledger.removeBudget(`key:${alice.key}`, "1d", noon + 3, root);
    await keys.revoke(alice.key, noon + 4, "carol");
    await keys.revoke(alice.key, noon + 5, "carol");
    await keys.revoke("stranger", noon + 5, "carol");
    const { entries, next } = await store.audit.entries({ limit: 100 });
    expect(next).toBeNull();
    const facts = {
      id: alice.key,
      name: "alice",
      team: "red",
      models: ["gpt-*"],
      limits: noRateLimits,
      output_cap: null,
      hosted_tools: null,
      created_at: "2026-11-20T12:00:00.000Z",
      expires_at: "2026-11-20T12:00:00.009Z",
      labels: {},
      tags: {},
      user: null,
      requires: [],
      revoked_at: null,
      suspended_at: null,
      rotated_at: null,
      previous_valid_until: null,
    };
    const five = { scope: "key:alice", period: "1d", mode: "hard", limit_usd: "5.00", warn_percent: null };
    const half = { ...five, mode: "soft", limit_usd: "0.50", warn_percent: 80 };
    expect(entries.toReversed().slice(1)).toEqual([
      { id: 2, at: noon, by: "carol", action: "keys.create", object: "key:alice", before: null, after: facts },
      {
        id: 3,
        at: noon + 1,
        by: "os:root",
        action: "budgets.set",
        object: "budget:key:alice/1d",
        before: null,
        after: five,
      },
      {
        id: 4,
        at: noon + 2,
        by: "os:root",
        action: "budgets.set",
        object: "budget:key:alice/1d",
        before: five,
        after: half,
      },
      {
        id: 5,
        at: noon + 3,
        by: "os:root",
        action: "budgets.remove",
        object: "budget:key:alice/1d",
        before: half,
        after: null,
      },
      {
        id: 6,
        at: noon + 4,
        by: "carol",
        action: "keys.revoke",
        object: "key:alice",
        before: facts,
        after: { ...facts, revoked_at: "2026-11-20T12:00:00.004Z" },
      },
    ]);
    expect(JSON.stringify(entries)).not.toContain(full.digest);
  });

  it("has no entry for a change to the same values", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    await store.ledger.setBudget(budget(everyRequest, "1d", "5"), noon);
    await store.ledger.setBudget(budget(everyRequest, "1d", "5"), noon + 1);
    const { entries } = await store.audit.entries({ limit: 100 });
    expect(entries.map(({ at, by }) => [at, by])).toEqual([[noon, "farebox"]]);
  });

  it("records the charge's cost before and after a correction", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    await ledger.hold(holdOf("a", usd("1")));
    await ledger.post("a", posting(100, 0), endAt(noon));
    const correct = (id: string, amount: PicoUsd) =>
      ledger.adjust("a", { id, at: noon + 1, amount, why: "late fee", by: root });
    expect(await correct("fix-1", usd("0.25"))).toBe("ok");
    expect(await correct("fix-1", usd("0.25"))).toBe("repeated");
    expect(await correct("fix-2", -usd("9") as PicoUsd)).toBe("below_zero");
    expect(await correct("fix-3", -usd("0.05") as PicoUsd)).toBe("ok");
    const { entries } = await store.audit.entries({ limit: 100 });
    const entry = { at: noon + 1, by: "os:root", action: "charges.adjust", object: "charge:a" };
    expect(entries).toEqual([
      {
        id: 2,
        ...entry,
        before: { cost_usd: "0.2501" },
        after: { cost_usd: "0.2001", correction: "fix-3", amount_usd: "-0.05", why: "late fee" },
      },
      {
        id: 1,
        ...entry,
        before: { cost_usd: "0.0001" },
        after: { cost_usd: "0.2501", correction: "fix-1", amount_usd: "0.25", why: "late fee" },
      },
    ]);
  });

  it("is listed newest first, in pages, by time, object and search text", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    for (let index = 0; index < 7; index++)
      await store.keys.create(key(`key-${index}`, { createdAt: noon + index }), root);
    const first = await store.audit.entries({ limit: 3 });
    expect(first.entries.map(({ id }) => id)).toEqual([7, 6, 5]);
    const second = await store.audit.entries({ limit: 4, after: first.next ?? 0 });
    expect([second.entries.map(({ id }) => id), second.next]).toEqual([[4, 3, 2, 1], null]);
    const middle = await store.audit.entries({ limit: 9, since: noon + 2, until: noon + 5 });
    expect(middle.entries.map(({ object }) => object)).toEqual(["key:key-4", "key:key-3", "key:key-2"]);
    const objects = async (query: object) =>
      (await store.audit.entries({ limit: 9, ...query })).entries.map(({ object }) => object);
    expect(await objects({ object: "key:key-3" })).toEqual(["key:key-3"]);
    expect(await objects({ object: "key:key" })).toEqual([]);
    expect(await objects({ search: "KEY-3" })).toEqual(["key:key-3"]);
    expect(await objects({ search: "os:root", limit: 2 })).toHaveLength(2);
    expect(await objects({ search: "keys.create", since: noon + 2, until: noon + 4 })).toEqual([
      "key:key-3",
      "key:key-2",
    ]);
    expect(await objects({ search: "key_3" })).toEqual([]);
  });

  it("lists the changes of a key or team together with those of budgets that name it", async () => {
    await using home = newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger, keys, teams } = store;
    await teams.create(
      { name: "red", models: null, limits: noRateLimits, outputCap: null, hostedTools: null, createdAt: noon },
      "carol",
    );
    await keys.create(key("alice", { id: alice.key, team: "red" }), "carol");
    await keys.create(key("alice-2", { id: "another" }), "carol");
    const scopes = {
      "key:alice": `key:${alice.key}`,
      "key:alice model:gpt*": `key:${alice.key} model:gpt*`,
      "team:red key:alice": `team:red key:${alice.key}`,
      "key:alice-2": "key:another",
      "tag:of=key:alice": "tag:of=key:alice",
      "each-key:red": "team:red each-key",
      "team:red each-user": "team:red each-user",
      "team:redder": "team:redder",
    };
    for (const stored of Object.values(scopes)) {
      const scope = parseScope(stored);
      if (scope === undefined) throw new Error(`no scope: ${stored}`);
      await ledger.setBudget(budget(scope, "1d", "5"), noon, root);
    }
    const about = async (name: string, more: object = {}) =>
      (await store.audit.entries({ limit: 100, about: name, ...more })).entries.map(({ object }) => object).toSorted();
    expect(await about("key:alice")).toEqual([
      "budget:key:alice model:gpt*/1d",
      "budget:key:alice/1d",
      "budget:team:red key:alice/1d",
      "key:alice",
    ]);
    expect(await about("key:alice-2")).toEqual(["budget:key:alice-2/1d", "key:alice-2"]);
    expect(await about("team:red")).toEqual([
      "budget:each-key:red/1d",
      "budget:team:red each-user/1d",
      "budget:team:red key:alice/1d",
      "team:red",
    ]);
    expect(await about("key:alice", { object: "budget:key:alice/1d" })).toEqual(["budget:key:alice/1d"]);
    expect(await about("key:%")).toEqual([]);
  });

  it("survives a restart", async () => {
    await using home = newHome(manualClock(noon));
    const before = await home.open();
    await before.keys.create(key("alice"), root);
    await before[Symbol.asyncDispose]();
    await using after = await home.open();
    await after.keys.create(key("bob"), root);
    expect((await after.audit.entries({ limit: 9 })).entries.map(({ id, object }) => [id, object])).toEqual([
      [2, "key:bob"],
      [1, "key:alice"],
    ]);
  });
});

describe("the audit in SQLite", () => {
  it.each([
    "update audit_entries set made_by = 'somebody'",
    "delete from audit_entries",
    "insert or replace into audit_entries (id, made_at, made_by, action, object) values (1, 0, 'x', 'keys.create', 'key:x')",
  ])("rejects the statement %s", async (sql) => {
    using folder = tempFolder();
    const store = await openStore({
      path: folder.database,
      calendar: utc,
      clock: manualClock(noon),
      access: "command",
    });
    await store.keys.create(key("alice"), root);
    await store[Symbol.asyncDispose]();
    using db = openDatabase(folder.database);
    expect(() => db.connection.exec(sql)).toThrow(/an entry of the audit is never (changed|deleted|replaced)/);
    expect(db.connection.prepare("select made_by from audit_entries").pluck().all()).toEqual(["os:root"]);
  });

  it("has no entry for a change that failed", async () => {
    using folder = tempFolder();
    await using store = await openStore({
      path: folder.database,
      calendar: utc,
      clock: manualClock(noon),
      access: "command",
    });
    await store.keys.create(key("alice"), root);
    await expect(store.keys.create(key("bob", { digest: key("alice").digest }), root)).rejects.toThrow("UNIQUE");
    expect((await store.audit.entries({ limit: 9 })).entries.map(({ object }) => object)).toEqual(["key:alice"]);
  });
});

function openDatabase(path: string): { readonly connection: Database.Database } & Disposable {
  const connection = new Database(path);
  return { connection, [Symbol.dispose]: () => void connection.close() };
}
