import { describe, expect, it } from "vitest";
import { usd } from "../../src/core/money.ts";
import type { AgentSessionQuery } from "../../src/ports/agent-sessions.ts";
import type { HoldRequest, LedgerQueries, Posting } from "../../src/ports/ledger.ts";
import { alice, bob, endAt, holdOf, ledgerKinds, noon, posting, tokens } from "../support/ledger-fixtures.ts";
import { manualClock } from "../support/manual-clock.ts";

const minuteMs = 60_000;
const all = { since: noon - 1000 * minuteMs, until: noon + 1000 * minuteMs, limit: 100, examinedMax: 1000 };
const cutAs = (reason: string): Posting => ({ ...posting(1000, 10), source: "partial", reason });

/** Returns the pages of a list of sessions. */
async function pagesOf(ledger: LedgerQueries, query: AgentSessionQuery) {
  const pages: (readonly string[])[] = [];
  const examined: (number | null)[] = [];
  for (let after: string | null | undefined; after !== null;) {
    const page = await ledger.agentSessions({ ...query, after });
    if (page === null) throw new Error("the cursor was refused");
    pages.push(page.ids);
    examined.push(page.examinedTo);
    after = page.next;
  }
  return { pages, examined };
}

describe.each(ledgerKinds)("sessions of agents in the ledger: $name", (kind) => {
  it("are listed by their latest request, in pages, by key and span", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    const sent: readonly (readonly [session: string | null, minute: number, caller?: typeof alice])[] = [
      ["a", 0],
      ["b", 1],
      [null, 2],
      ["a", 3],
      ["c, 'quoted' \"é\"", 3, bob],
      ["b", 5, bob],
      ["d", 6],
      [null, 7],
    ];
    for (const [index, [session, minute, caller = alice]] of sent.entries()) {
      const tags: Record<string, string> = session === null ? { feature: "x" } : { agent_session: session };
      await ledger.hold(holdOf(`r${index}`, usd("1"), { at: noon + minute * minuteMs, caller, tags }));
      if (index !== 1) await ledger.post(`r${index}`, posting(100, 10), endAt(noon));
    }
    const c = "c, 'quoted' \"é\"";
    expect((await pagesOf(ledger, all)).pages).toEqual([["d", "b", "a", c]]);
    expect((await pagesOf(ledger, { ...all, limit: 1 })).pages).toEqual([["d"], ["b"], ["a"], [c]]);
    expect((await pagesOf(ledger, { ...all, limit: 3 })).pages).toEqual([["d", "b", "a"], [c]]);
    expect((await pagesOf(ledger, { ...all, limit: 1, key: bob.key })).pages).toEqual([["b"], [c]]);
    expect((await pagesOf(ledger, { ...all, limit: 1, key: alice.key })).pages).toEqual([["d"], ["a"], ["b"]]);
    const span = { since: noon + minuteMs, until: noon + 5 * minuteMs };
    expect((await pagesOf(ledger, { ...all, ...span, limit: 1 })).pages).toEqual([["a"], [c], ["b"]]);
    expect(await ledger.agentSessions({ ...all, after: "nonsense" })).toBeNull();
  });

  it("are found in parts if a query may not examine all charges", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    for (const [index, session] of ["a", "b", "a", "c", "c", "b", "d", "d"].entries())
      await ledger.hold(holdOf(`r${index}`, usd("1"), { at: noon + index, tags: { agent_session: session } }));
    for (const examinedMax of [1, 2, 3, 5, 8]) {
      const { pages, examined } = await pagesOf(ledger, { ...all, examinedMax });
      expect([examinedMax, pages.flat()]).toEqual([examinedMax, ["d", "b", "c", "a"]]);
      expect(examined[0]).toBe(noon + 8 - examinedMax);
    }
    expect((await pagesOf(ledger, { ...all, examinedMax: 9 })).examined).toEqual([null]);
    // Charges of one millisecond are examined together.
    for (const session of ["e", "f", "g"])
      await ledger.hold(holdOf(session, usd("1"), { at: noon + 100, tags: { agent_session: session } }));
    const { pages } = await pagesOf(ledger, { ...all, examinedMax: 2, limit: 2 });
    expect(pages.flat()).toEqual(["e", "f", "g", "d", "b", "c", "a"]);
  });

  it("have sums by key, agent and model, with requests in flight and cut streams", async () => {
    await using home = kind.newHome(manualClock(noon));
    await using store = await home.open();
    const { ledger } = store;
    const hold = (id: string, minute: number, more: Partial<HoldRequest> & { tags: Record<string, string> }) =>
      ledger.hold(holdOf(id, usd("1"), { at: noon + minute * minuteMs, ...more }));
    const main = { agent_session: "s" };
    const helper = { agent_session: "s", agent: "a1", parent_agent: "a0", session: "run_one" };
    await hold("r1", 0, { tags: main });
    await hold("r2", 1, { tags: main, stream: true });
    await hold("r3", 2, { tags: main, stream: true });
    await hold("r4", 3, { tags: main });
    await hold("r5", 4, { tags: helper });
    await hold("r6", 5, { tags: helper });
    await hold("r7", 6, { tags: helper, caller: bob, model: "model-b", price: null, amount: null });
    await hold("r8", 7, { tags: { agent_session: "other" } });
    await ledger.post("r1", posting(1000, 10), endAt(noon + 1));
    await ledger.post("r2", cutAs("gateway_reset"), endAt(noon + 2 * minuteMs));
    await ledger.post("r3", cutAs("client_left"), endAt(noon + 3 * minuteMs));
    await ledger.void("r4", "gateway_500", endAt(noon + 9 * minuteMs));
    await ledger.post("r5", { ...cutAs("gateway_cut") }, endAt(noon + 5 * minuteMs));
    await ledger.post("r7", { ...posting(1, 1), cost: null, listCost: null, formula: "unpriced" }, endAt(noon));
    await ledger.adjust("r1", { id: "fix", at: noon + 99 * minuteMs, amount: usd("0.5"), why: "late", by: "root" });
    const one = posting(1000, 10).cost ?? 0n;
    const sums = await ledger.agentSums({ of: { sessions: ["s", "unknown"] } });
    const ofMain = {
      session: "s",
      key: alice.key,
      agent: null,
      parent: null,
      model: "model-a",
      requests: 3,
      unpricedRequests: 0,
      tokens: tokens(3000, 30),
      cost: 3n * one + usd("0.5"),
      listCost: 3n * (posting(1000, 10).listCost ?? 0n),
      cut: { requests: 1, cost: one },
      pending: { requests: 0, held: 0n },
      firstAt: noon,
      lastAt: noon + 3 * minuteMs,
      endedAt: noon + 9 * minuteMs,
    };
    const ofHelper = {
      ...ofMain,
      agent: "a1",
      parent: "a0",
      requests: 1,
      tokens: tokens(1000, 10),
      cost: one,
      listCost: posting(1000, 10).listCost,
      cut: { requests: 0, cost: 0n },
      pending: { requests: 1, held: usd("1") },
      firstAt: noon + 4 * minuteMs,
      lastAt: noon + 5 * minuteMs,
      endedAt: noon + 5 * minuteMs,
    };
    expect(sums).toHaveLength(3);
    expect(sums).toEqual(
      expect.arrayContaining([
        ofMain,
        ofHelper,
        expect.objectContaining({
          key: bob.key,
          agent: "a1",
          model: "model-b",
          requests: 1,
          unpricedRequests: 1,
          cost: 0n,
        }),
      ]),
    );
    const of = { sessions: ["s"] };
    expect(await ledger.agentSums({ of, key: bob.key })).toMatchObject([{ key: bob.key, requests: 1 }]);
    expect(await ledger.agentSums({ of, since: noon + 4 * minuteMs, until: noon + 5 * minuteMs })).toMatchObject([
      { agent: "a1", requests: 1, pending: { requests: 0 } },
    ]);
    const ofRun = await ledger.agentSums({ of: { run: "run_one" } });
    expect(ofRun.map(({ agent, model, requests }) => [agent, model, requests]).toSorted()).toEqual([
      ["a1", "model-a", 1],
      ["a1", "model-b", 1],
    ]);
    expect((await ledger.agentSessions(all))?.ids).toEqual(["other", "s"]);
  });
});
