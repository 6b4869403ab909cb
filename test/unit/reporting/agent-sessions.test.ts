import { expect, it } from "vitest";
import { usd } from "../../../src/core/money.ts";
import { noTokens } from "../../../src/core/usage.ts";
import type { AgentSums } from "../../../src/ports/agent-sessions.ts";
import { agentsJson, agentSessionsJson } from "../../../src/reporting/agent-sessions.ts";

let minute = 0;
function sums(agent: string | null, parent: string | null, cost: string, more: Partial<AgentSums> = {}): AgentSums {
  const at = ++minute * 60_000;
  return {
    session: "s",
    key: "k-alice",
    agent,
    parent,
    model: "gpt-4o",
    requests: 1,
    unpricedRequests: 0,
    tokens: noTokens,
    cost: usd(cost),
    listCost: usd(cost),
    cut: { requests: 0, cost: usd("0") },
    pending: { requests: 0, held: usd("0") },
    firstAt: at,
    lastAt: at,
    endedAt: null,
    ...more,
  };
}

const shape = (rows: readonly AgentSums[]) =>
  agentsJson(rows).map(({ agent, depth, cost_usd, total_usd }) => [agent, depth, cost_usd, total_usd]);

it("lists agents as a tree, with the cost of all agents below each one", () => {
  expect(
    shape([
      sums("grandchild", "child", "0.01"),
      sums(null, null, "1"),
      sums("child", null, "0.10"),
      sums("other", "s", "0.20"),
      sums("second", "child", "0.02"),
      // An agent that used two models, and named its parent once.
      sums("child", null, "0.30", { model: "gpt-5" }),
    ]),
  ).toEqual([
    [null, 0, "1.00", "1.63"],
    ["child", 1, "0.40", "0.43"],
    ["grandchild", 2, "0.01", "0.01"],
    ["second", 2, "0.02", "0.02"],
    ["other", 1, "0.20", "0.20"],
  ]);
});

it("knows Codex's main agent, whose id is the session's", () => {
  expect(shape([sums("s", null, "1"), sums("t", "s", "0.5")])).toEqual([
    [null, 0, "1.00", "1.50"],
    ["t", 1, "0.50", "0.50"],
  ]);
});

it("lists every agent once, even if parents are missing or form a circle", () => {
  expect(shape([sums("a", "gone", "1"), sums("b", "c", "2"), sums("c", "b", "4"), sums("d", "d", "8")])).toEqual([
    ["a", 1, "1.00", "1.00"],
    ["b", 1, "2.00", "6.00"],
    ["c", 2, "4.00", "4.00"],
    ["d", 1, "8.00", "8.00"],
  ]);
});

it("states keys, times, models and the share of the prompts that came from the cache", () => {
  minute = 0;
  const rows = [
    sums(null, null, "1", { tokens: { ...noTokens, input: 100, cached_input: 199, cache_write: 1, output: 7 } }),
    sums(null, null, "2", { model: "gpt-5", key: "k-bob", endedAt: 300_000, cut: { requests: 1, cost: usd("2") } }),
    sums("a", null, "0", { key: "", pending: { requests: 2, held: usd("3") } }),
  ];
  const nameOf = (id: string) => (id === "" ? null : id.slice(2));
  const [session, ...others] = agentSessionsJson(["unknown", "s"], rows, nameOf);
  expect(others).toEqual([]);
  expect(session).toMatchObject({
    id: "s",
    keys: ["alice", "bob"],
    first_at: "1970-01-01T00:01:00.000Z",
    last_at: "1970-01-01T00:03:00.000Z",
    duration_seconds: 240,
    pending: { requests: 2, held_usd: "3.00" },
    requests: 3,
    cost_usd: "3.00",
    cached_percent: 66.3,
    cut: { requests: 1, cost_usd: "2.00" },
    models: [
      { model: "gpt-5", cost_usd: "2.00", cached_percent: null },
      { model: "gpt-4o", cost_usd: "1.00", cached_percent: 66.3 },
    ],
    agents: [
      { agent: null, depth: 0, requests: 2 },
      { agent: "a", depth: 1, requests: 1 },
    ],
  });
});
