import { describe, expect, it } from "vitest";
import type { LedgerQueries } from "../../src/ports/ledger.ts";
import { usd } from "../../src/core/money.ts";
import {
  runBudgetKeptMs,
  runSessionMsMax,
  runSessionsKeptMax,
  runSessionsMax,
  type RunSession,
} from "../../src/core/keys.ts";
import { endAt, holdOf, key, ledgerKinds, noon, posting, type LedgerKind } from "../support/ledger-fixtures.ts";
import { only } from "../support/only.ts";
import { manualClock } from "../support/manual-clock.ts";
import { sessionJson } from "../../src/reporting/run-session.ts";

async function opened(kind: LedgerKind) {
  const home = kind.newHome(manualClock(noon));
  const store = await home.open();
  let changes = 0;
  store.changes.onChange(() => changes++);
  await store.keys.create(key("alice"));
  return {
    ...store,
    home,
    changes: () => changes,
    budgets: async () => (await store.ledger.budgets()).map(({ id }) => id),
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await home[Symbol.asyncDispose]();
    },
  };
}

function session(id: string, more: Partial<RunSession> = {}): RunSession {
  return {
    id: `run_${id}`,
    key: "id-alice",
    secret: key("alice").digest,
    tags: {},
    budget: null,
    createdAt: noon,
    expiresAt: noon + runSessionMsMax,
    endedAt: null,
    ...more,
  };
}

const scope = "key:id-alice tag:session=run_one/total";
const inOne = (id: string) =>
  holdOf(id, usd("1"), { caller: { key: "id-alice", team: null }, tags: { session: "run_one" } });

describe.each(ledgerKinds)("the store of sessions: $name", (kind) => {
  it("stores a session with its budget, which limits holds", async () => {
    await using store = await opened(kind);
    const { sessions, ledger } = store;
    const one = session("one", { budget: usd("1.50"), tags: { feature: 'é, or "so"' } });
    const before = store.changes();
    expect(await sessions.create(one, null)).toBe("ok");
    expect(store.changes()).toBeGreaterThan(before);
    expect(await sessions.find("run_one")).toEqual(one);
    expect(await sessions.find("run_two")).toBeUndefined();
    expect(await store.budgets()).toEqual([scope]);
    expect(await ledger.hold(inOne("a"))).toMatchObject({ ok: true, room: usd("0.50") });
    expect(await ledger.hold(inOne("b"))).toMatchObject({ ok: false, reason: "no_room" });
    expect((await ledger.verify()).differences).toEqual([]);
  });

  it("refuses a session of a key that is not live, or above the maximum of open sessions", async () => {
    await using store = await opened(kind);
    const { sessions, keys } = store;
    await keys.create(key("gone", { revokedAt: noon }));
    await keys.create(key("old", { expiresAt: noon }));
    for (const id of ["id-gone", "id-old", "id-none"])
      expect(await sessions.create(session("x", { key: id }), null)).toBe("invalid_key");
    for (let n = 0; n < runSessionsMax; n++) expect(await sessions.create(session(`n${n}`), null)).toBe("ok");
    expect(await sessions.create(session("more"), null)).toBe("too_many");
    await sessions.end("run_n3", noon);
    expect(await sessions.create(session("more"), null)).toBe("ok");
    const later = noon + runSessionMsMax;
    expect(await sessions.create(session("later", { createdAt: later, expiresAt: later + 1 }), null)).toBe("ok");
  });

  it("refuses a session above the maximum per hour, which counts ended sessions too", async () => {
    await using store = await opened(kind);
    const { sessions } = store;
    const all = Array.from({ length: runSessionsKeptMax }, async (_, n) => {
      expect(await sessions.create(session(`n${n}`, { endedAt: noon }), null)).toBe("ok");
    });
    await Promise.all(all);
    expect(await sessions.create(session("x", { createdAt: noon + runBudgetKeptMs - 1 }), null)).toBe("too_many");
    expect(await sessions.create(session("x", { createdAt: noon + runBudgetKeptMs }), null)).toBe("ok");
  });

  it("stores the secret with which a session began, if it is valid for the key", async () => {
    await using store = await opened(kind);
    const { sessions, keys } = store;
    const rotate = (digest: string, madeAt: number, previousValidUntil: number | null) =>
      keys.update("id-alice", { secret: { digest, madeAt, previousValidUntil } }, madeAt);
    const first = key("alice").digest;
    await rotate("second", noon + 1, noon + 9);
    const begin = async (id: string, secret: string | null, createdAt: number) =>
      (await sessions.create({ ...session(id, { createdAt }), secret }, null)) === "ok"
        ? (await sessions.find(`run_${id}`))?.secret
        : "refused";
    expect([
      await begin("a", first, noon + 8),
      await begin("b", "second", noon + 8),
      await begin("c", null, noon + 8),
      await begin("d", first, noon + 9),
      await begin("e", "third", noon + 9),
      await begin("f", "", noon + 9),
    ]).toEqual([first, "second", "second", "refused", "refused", "refused"]);
    await rotate("third", noon + 10, null);
    expect([await begin("g", "second", noon + 11), await begin("h", null, noon + 11)]).toEqual(["refused", "third"]);
  });

  it("does not count a session as open if it began with a secret that is no longer valid for the key", async () => {
    await using store = await opened(kind);
    const { sessions, keys } = store;
    for (let n = 0; n < runSessionsMax; n++) expect(await sessions.create(session(`n${n}`), null)).toBe("ok");
    const secret = { digest: "second", madeAt: noon + 1, previousValidUntil: noon + 9 };
    await keys.update("id-alice", { secret }, noon + 1);
    const later = (createdAt: number) => ({ ...session("later", { createdAt }), secret: null });
    expect(await sessions.create(later(noon + 8), null)).toBe("too_many");
    expect(await sessions.create(later(noon + 9), null)).toBe("ok");
  });

  it("limits sessions that begin in parallel", async () => {
    await using store = await opened(kind);
    const begun = Array.from({ length: runSessionsMax + 5 }, (_, n) => store.sessions.create(session(`n${n}`), null));
    expect((await Promise.all(begun)).filter((answer) => answer === "ok")).toHaveLength(runSessionsMax);
  });

  it("ends a session once", async () => {
    await using store = await opened(kind);
    await store.sessions.create(session("one"), null);
    const before = store.changes();
    expect(await store.sessions.end("run_one", noon + 5)).toEqual(session("one", { endedAt: noon + 5 }));
    expect(store.changes(), "no process reloads its keys").toBe(before);
    expect(await store.sessions.end("run_one", noon + 9)).toMatchObject({ endedAt: noon + 5 });
    expect(await store.sessions.end("run_two", noon + 9)).toBeUndefined();
  });

  it("removes an ended session's budget once nothing is held, and the session after its expiry; charges remain", async () => {
    await using store = await opened(kind);
    const { sessions, ledger } = store;
    await sessions.create(session("one", { budget: usd("5") }), null);
    await ledger.hold(inOne("a"));
    await sessions.end("run_one", noon + 1000);
    const over = noon + 1000 + runBudgetKeptMs;
    expect(await sessions.tidy(over - 1)).toBe(0);
    expect(await sessions.tidy(over)).toBe(0);
    await ledger.post("a", posting(10, 10), endAt(noon));
    expect(await sessions.tidy(over - 1)).toBe(0);
    expect(await store.budgets()).toEqual([scope]);
    expect(await sessions.tidy(over)).toBe(1);
    expect(await store.budgets()).toEqual([]);
    expect(await sessions.tidy(over)).toBe(0);
    expect(await sessions.find("run_one")).toMatchObject({ endedAt: noon + 1000 });
    const expired = noon + runSessionMsMax + runBudgetKeptMs;
    expect(await sessions.tidy(expired - 1)).toBe(0);
    expect(await sessions.tidy(expired)).toBe(1);
    expect(await sessions.find("run_one")).toBeUndefined();
    expect(await ledger.charge("a")).toMatchObject({ state: "posted", tags: { session: "run_one" } });
    expect((await ledger.verify()).differences).toEqual([]);
  });

  it("removes an expired session with its budget", async () => {
    await using store = await opened(kind);
    await store.sessions.create(session("one", { budget: usd("5"), expiresAt: noon + 1 }), null);
    await store.sessions.create(session("two"), null);
    expect(await store.sessions.tidy(noon + 1 + runBudgetKeptMs)).toBe(1);
    expect(await store.budgets()).toEqual([]);
    expect(await store.sessions.find("run_one")).toBeUndefined();
    expect(await store.sessions.find("run_two")).toBeDefined();
  });

  it("sums up a single session", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.hold(inOne("a"));
    await ledger.hold(holdOf("b", usd("1"), { tags: { session: "run_two" } }));
    await ledger.hold(holdOf("c", usd("1")));
    for (const id of ["a", "b", "c"]) await ledger.post(id, posting(1000, 1000), endAt(noon));
    const span = { since: noon - 1e9, until: noon + 1e9 };
    const rows = await ledger.report({ by: ["model"], ...span, session: "run_one" });
    expect(rows).toMatchObject([{ dimensions: { model: "model-a" }, requests: 1, cost: usd("0.005") }]);
    expect(await ledger.report({ by: [], ...span, session: "run_three" })).toEqual([]);
  });

  it("does not miss a request that settles while the summary is read", async () => {
    await using store = await opened(kind);
    const { ledger } = store;
    await ledger.hold(inOne("a"));
    const settle = () => ledger.post("a", posting(1000, 1000), endAt(noon));
    const settling = only<LedgerQueries>({
      report: async (query) => {
        const rows = await ledger.report(query);
        await settle();
        return rows;
      },
      charges: async (query) => {
        const page = await ledger.charges(query);
        await settle();
        return page;
      },
      agentSums: (query) => ledger.agentSums(query),
    });
    const asked = session("one", { budget: usd("2") });
    expect(await sessionJson(settling, asked, "alice", noon)).toMatchObject({
      requests: 1,
      cost_usd: "0.005",
      pending: { requests: 1 },
      budget: { remaining_usd: "0.995" },
    });
    expect(await sessionJson(ledger, asked, "alice", noon)).toMatchObject({
      requests: 1,
      pending: { requests: 0 },
      budget: { remaining_usd: "1.995" },
    });
  });

  it("audits sessions that a command begins, without the secret", async () => {
    await using store = await opened(kind);
    const secret = await store.sessions.secret();
    expect(secret).toMatch(/^[0-9a-f]{64}$/);
    await store.sessions.create(session("one", { budget: usd("5") }), null);
    await store.sessions.create(session("two", { budget: usd("5") }), "os:root");
    const { entries } = await store.audit.entries({ limit: 10 });
    expect(entries.filter(({ action }) => action !== "keys.create")).toMatchObject([
      {
        by: "os:root",
        action: "sessions.create",
        object: "session:run_two",
        before: null,
        after: { key: "alice", budget_usd: "5.00", expires_at: "2026-11-21T00:00:00.000Z", tags: {} },
      },
    ]);
    for (const hidden of [secret, key("alice").digest]) expect(JSON.stringify(entries)).not.toContain(hidden);
  });

  it("keeps the signing secret when the ledger reopens", async () => {
    const home = kind.newHome(manualClock(noon));
    const secretNow = async () => {
      await using store = await home.open();
      return await store.sessions.secret();
    };
    expect(await secretNow()).toBe(await secretNow());
    await home[Symbol.asyncDispose]();
  });
});
