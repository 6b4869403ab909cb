import type { PicoUsd } from "../../core/money.ts";
import { tokenClasses, type TokenClass } from "../../core/usage.ts";
import type { AgentSessionPage, AgentSessionQuery, AgentSums, AgentSumsQuery } from "../../ports/agent-sessions.ts";
import { tokensOf } from "../rows/charges.ts";
import type { Dialect } from "./dialects.ts";
import { Conditions, cursorOf, readCursor } from "./page.ts";
import { rowOf, rowsOf, sumSql, type Query } from "./query.ts";

interface FoundRow {
  readonly id: string;
  readonly last: bigint;
}

/** Values that identify the position of a session in the list: the time of its latest request, and its id. */
const position = [
  ["last", "integer"],
  ["id", "text"],
] as const;

/** Identifies the cursors of this list. */
const listName = ["agent_sessions"] as const;

/**
 * Implements `LedgerQueries.agentSessions`. Examines at most about `examinedMax` charges with a session, newest first,
 * in an index that contains no others. A later page continues at the time of the last session, and leaves out sessions
 * with later requests, which are on earlier pages.
 */
export function* readAgentSessions(dialect: Dialect, query: AgentSessionQuery): Query<AgentSessionPage | null> {
  const { since, until, key, limit, examinedMax } = query;
  const after = query.after === undefined ? [] : readCursor(query.after, listName, position);
  if (after === null) return null;
  const [last, id] = after as [] | [bigint, string];
  const session = dialect.agentTag("session");
  const inSpan = new Conditions()
    .add(`${session} is not null and admitted_at >= ? and admitted_at < ?`, since, until)
    .add("admitted_at <= ?", last);
  const ofAgents = `from charges ${dialect.ofAgents} where ${inSpan.sql}`;
  const lastExamined = yield* rowOf<{ at: bigint }>({
    sql: `select admitted_at as at ${ofAgents} order by admitted_at desc limit 1 offset ?`,
    values: [...inSpan.values, examinedMax - 1],
  });
  const examined = new Conditions().add("admitted_at >= ?", lastExamined?.at).add("key = ?", key);
  const unlisted = new Conditions().add("(last < ? or last = ? and id > ?)", last, last, id);
  if (last !== undefined) {
    const later = new Conditions()
      .add(`${session} is not null and ${session} = found.id and admitted_at > ? and admitted_at < ?`, last, until)
      .add("key = ?", key);
    unlisted.add(`not exists (select 1 from charges ${dialect.ofAgentSession} where ${later.sql})`, ...later.values);
  }
  const rows = yield* rowsOf<FoundRow>({
    sql: `select id, last from (
        select ${session} as id, max(admitted_at) as last ${ofAgents} and ${examined.sql} group by 1
      ) found where ${unlisted.sql} order by last desc, id limit ?`,
    values: [...inSpan.values, ...examined.values, ...unlisted.values, limit + 1],
  });
  const ids = rows.slice(0, limit).map((row) => row.id);
  const end = rows.length > limit ? rows[limit - 1] : undefined;
  if (end !== undefined) return { ids, next: cursorAt(end), examinedTo: null };
  if (lastExamined === undefined) return { ids, next: null, examinedTo: null };
  const { at } = lastExamined;
  return { ids, next: cursorAt({ last: at - 1n, id: "" }), examinedTo: Number(at) };
}

function cursorAt({ last, id }: FoundRow): string {
  return cursorOf([...listName, String(last), id]);
}

type SumRow = Readonly<Record<TokenClass, bigint>> & {
  readonly session: string | null;
  readonly key: string;
  readonly agent: string | null;
  readonly parent: string | null;
  readonly model: string;
  readonly requests: bigint;
  readonly unpriced: bigint;
  readonly cost: PicoUsd;
  readonly list_cost: PicoUsd;
  readonly cut: bigint;
  readonly cut_cost: PicoUsd;
  readonly pending: bigint;
  readonly held: PicoUsd;
  readonly first_at: bigint;
  readonly last_at: bigint;
  readonly ended_at: bigint | null;
};

/** Condition for posted charges that are requests, not corrections. */
const isRequest = "state = 'posted' and formula <> 'adjustment'";
/** Condition for requests whose stream ended early, but not because the client left. */
const isCut = `${isRequest} and stream = 1 and source = 'partial' and reason <> 'client_left'`;
const countIf = (condition: string) => sumSql(`case when ${condition} then 1 else 0 end`);

/** Implements `LedgerQueries.agentSums`. The charges of a session are found by an index, however old they are. */
export function* readAgentSums(
  dialect: Dialect,
  { of, key, since, until }: AgentSumsQuery,
): Query<readonly AgentSums[]> {
  const session = dialect.agentTag("session");
  const where = new Conditions();
  if ("run" in of) where.add("session = ?", of.run);
  else where.add(`${session} is not null and ${dialect.isIn(session)}`, JSON.stringify(of.sessions));
  where.add("admitted_at >= ?", since).add("admitted_at < ?", until).add("key = ?", key);
  const rows = yield* rowsOf<SumRow>({
    sql: `select ${session} as session, key, ${dialect.agentTag("agent")} as agent, ${dialect.agentTag("parent")} as parent, model,
        ${countIf(isRequest)} as requests, ${countIf(`${isRequest} and cost is null`)} as unpriced,
        ${sumSql("cost")} as cost, ${sumSql("list_cost")} as list_cost,
        ${countIf(isCut)} as cut, ${sumSql(`case when ${isCut} then cost end`)} as cut_cost,
        ${countIf("state = 'pending'")} as pending, ${sumSql("case when state = 'pending' then hold end")} as held,
        ${tokenClasses.map((name) => `${sumSql(name)} as ${name}`).join(", ")},
        min(admitted_at) as first_at, max(admitted_at) as last_at,
        max(case when adjusts is null then ended_at end) as ended_at
      from charges ${"run" in of ? "" : dialect.ofAgentSession} where ${where.sql} group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5`,
    values: where.values,
  });
  return rows.map((row) => ({
    session: row.session,
    key: row.key,
    agent: row.agent,
    parent: row.parent,
    model: row.model,
    requests: Number(row.requests),
    unpricedRequests: Number(row.unpriced),
    tokens: tokensOf(row),
    cost: row.cost,
    listCost: row.list_cost,
    cut: { requests: Number(row.cut), cost: row.cut_cost },
    pending: { requests: Number(row.pending), held: row.held },
    firstAt: Number(row.first_at),
    lastAt: Number(row.last_at),
    endedAt: row.ended_at === null ? null : Number(row.ended_at),
  }));
}
