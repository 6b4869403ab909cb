import { add, formatUsd, sum, type PicoUsd } from "../core/money.ts";
import { isoTime } from "../core/time.ts";
import { noTokens, promptTotal, tokenClasses, type TokenCounts } from "../core/usage.ts";
import type { AgentSums } from "../ports/agent-sessions.ts";
import type { NameOf } from "./names.ts";
import type { AgentJson, AgentSessionJson } from "./shapes/agent-sessions.ts";

/** Returns the sessions of agents with these ids, in this order. Leaves out sessions without sums. */
export function agentSessionsJson(
  ids: readonly string[],
  sums: readonly AgentSums[],
  nameOf: NameOf,
): readonly AgentSessionJson[] {
  const bySession = Map.groupBy(sums, ({ session }) => session);
  return ids.flatMap((id) => {
    const rows = bySession.get(id);
    return rows === undefined ? [] : [sessionJson(id, rows, nameOf)];
  });
}

function sessionJson(id: string, rows: readonly AgentSums[], nameOf: NameOf): AgentSessionJson {
  const names = rows.map(({ key }) => nameOf(key)).filter((name) => name !== null);
  const { firstAt, lastAt, endedAt } = timesOf(rows);
  return {
    id,
    keys: [...new Set(names)].toSorted(),
    first_at: isoTime(firstAt),
    last_at: isoTime(lastAt),
    duration_seconds: Math.max(0, Math.round((Math.max(endedAt ?? 0, lastAt) - firstAt) / 1000)),
    pending: {
      requests: rows.reduce((total, { pending }) => total + pending.requests, 0),
      held_usd: formatUsd(sum(rows.map(({ pending }) => pending.held))),
    },
    ...figuresOf(rows),
    models: [...Map.groupBy(rows, ({ model }) => model)]
      .toSorted(([, one], [, other]) => descending(costOf(one), costOf(other)))
      .map(([model, ofModel]) => ({ model, ...figuresOf(ofModel) })),
    agents: agentsJson(rows),
  };
}

/** Agent with the sums of its own requests, and its place in the tree. */
interface Agent {
  readonly id: string | null;
  readonly parent: string | null;
  readonly rows: readonly AgentSums[];
  readonly firstAt: number;
}

/**
 * Returns the agents of a session as a tree in a list: each one follows its parent, at a depth one greater. The main
 * agent, whose id is null, is first. An agent whose parent sent no requests is listed below the main agent.
 */
export function agentsJson(rows: readonly AgentSums[]): readonly AgentJson[] {
  const agents = new Map(
    [...Map.groupBy(rows, agentOf)].map(([id, ofAgent]): [string | null, Agent] => {
      const parent = ofAgent.find((row) => row.parent !== null && row.parent !== row.session)?.parent ?? null;
      return [id, { id, parent: id === null ? null : parent, rows: ofAgent, firstAt: timesOf(ofAgent).firstAt }];
    }),
  );
  const inOrder = [...agents.values()].filter(({ id }) => id !== null).toSorted((a, b) => a.firstAt - b.firstAt);
  const children = Map.groupBy(inOrder, ({ parent }) => (agents.has(parent) ? parent : null));
  const placed: { readonly agent: Agent; readonly depth: number; total: PicoUsd }[] = [];
  const seen = new Set<string | null>();
  function place(first: Agent, firstDepth: number): void {
    const stack = [{ agent: first, depth: firstDepth }];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      if (seen.has(next.agent.id)) continue;
      seen.add(next.agent.id);
      placed.push({ ...next, total: costOf(next.agent.rows) });
      const below = next.agent.id === null ? [] : (children.get(next.agent.id) ?? []);
      for (const agent of below.toReversed()) stack.push({ agent, depth: next.depth + 1 });
    }
  }
  const main = agents.get(null);
  if (main !== undefined) place(main, 0);
  for (const agent of children.get(null) ?? []) place(agent, 1);
  // Agents that name each other as parents hang below no other agent.
  for (const agent of inOrder) place(agent, 1);
  addUpwards(placed);
  return placed.map(({ agent: { id, parent, rows: own }, depth, total }) => {
    const { firstAt, lastAt } = timesOf(own);
    return {
      agent: id,
      parent,
      depth,
      first_at: isoTime(firstAt),
      last_at: isoTime(lastAt),
      total_usd: formatUsd(total),
      ...figuresOf(own),
    };
  });
}

/** Adds the cost of each agent to the agents above it. An agent follows its parent. */
function addUpwards(placed: readonly { readonly depth: number; total: PicoUsd }[]): void {
  const path: (typeof placed)[number][] = [];
  const parents = placed.map((each) => {
    path[each.depth] = each;
    return path[each.depth - 1];
  });
  for (const [index, parent] of [...parents.entries()].toReversed()) {
    const each = placed[index];
    if (parent !== undefined && each !== undefined) parent.total = add(parent.total, each.total);
  }
}

/** Returns the agent of a row; null for the main agent, which Codex names by the id of the session. */
function agentOf({ agent, session }: AgentSums): string | null {
  return agent === session ? null : agent;
}

/** Returns the figures of requests: of a session, of one of its models, or of one of its agents. */
function figuresOf(rows: readonly AgentSums[]) {
  const tokens = Object.fromEntries(
    tokenClasses.map((name) => [name, rows.reduce((total, row) => total + row.tokens[name], noTokens[name])]),
  ) as TokenCounts;
  return {
    requests: rows.reduce((total, row) => total + row.requests, 0),
    tokens,
    cost_usd: formatUsd(costOf(rows)),
    list_cost_usd: formatUsd(sum(rows.map(({ listCost }) => listCost))),
    unpriced_requests: rows.reduce((total, row) => total + row.unpricedRequests, 0),
    cached_percent: cachedPercent(tokens),
    cut: cutJson(rows),
  };
}

/** Returns the number and the cost of the requests whose stream was cut. */
export function cutJson(rows: readonly Pick<AgentSums, "cut">[]) {
  return {
    requests: rows.reduce((total, { cut }) => total + cut.requests, 0),
    cost_usd: formatUsd(sum(rows.map(({ cut }) => cut.cost))),
  };
}

/** Returns the percentage of the prompt's tokens that came from the cache, rounded down to 0.1; null without tokens. */
function cachedPercent(tokens: TokenCounts): number | null {
  const prompt = promptTotal(tokens);
  return prompt === 0 ? null : Math.floor((tokens.cached_input * 1000) / prompt) / 10;
}

function costOf(rows: readonly Pick<AgentSums, "cost">[]): PicoUsd {
  return sum(rows.map(({ cost }) => cost));
}

function timesOf(rows: readonly AgentSums[]) {
  return rows.reduce(
    (times, { firstAt, lastAt, endedAt }) => ({
      firstAt: Math.min(times.firstAt, firstAt),
      lastAt: Math.max(times.lastAt, lastAt),
      endedAt: endedAt === null ? times.endedAt : Math.max(times.endedAt ?? 0, endedAt),
    }),
    { firstAt: Infinity, lastAt: 0, endedAt: null as number | null },
  );
}

function descending(one: bigint, other: bigint): number {
  return one === other ? 0 : one < other ? 1 : -1;
}
