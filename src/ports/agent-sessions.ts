import type { PicoUsd } from "../core/money.ts";
import type { TokenCounts } from "../core/usage.ts";

/*
 * Sessions of agents such as Claude Code. A session consists of the charges with its id in the tag `agent_session`. It
 * is not a session of `farebox run`, which Farebox itself begins and ends.
 */

/** Selects sessions with a request in the span, the one with the latest request first. */
export interface AgentSessionQuery {
  /** Half-open span of admission times, in milliseconds since 1970 UTC. */
  readonly since: number;
  readonly until: number;
  /** Only sessions with requests of this key. */
  readonly key?: string | undefined;
  readonly limit: number;
  /** Number of charges with a session to examine at most. The query examines the newest ones. */
  readonly examinedMax: number;
  /** The `next` of the previous page. */
  readonly after?: string | undefined;
}

export interface AgentSessionPage {
  readonly ids: readonly string[];
  readonly next: string | null;
  /** Time of the last examined charge if the query did not examine all; the next page continues there. */
  readonly examinedTo: number | null;
}

/** Selects the charges of these sessions of agents, or of one session of `farebox run`. */
export interface AgentSumsQuery {
  readonly of: { readonly sessions: readonly string[] } | { readonly run: string };
  readonly key?: string | undefined;
  readonly since?: number;
  readonly until?: number;
}

/** Sums of the charges that one agent of one session caused with one key and model. */
export interface AgentSums {
  readonly session: string | null;
  readonly key: string;
  /** Null for the main agent, and for requests that name no agent. */
  readonly agent: string | null;
  /** Agent that started this one; null if the requests name none. */
  readonly parent: string | null;
  readonly model: string;
  readonly requests: number;
  readonly unpricedRequests: number;
  readonly tokens: TokenCounts;
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  /** Requests whose stream the gateway or Farebox cut, with their cost before corrections. */
  readonly cut: { readonly requests: number; readonly cost: PicoUsd };
  readonly pending: { readonly requests: number; readonly held: PicoUsd };
  /** Times of the first and the last request, and the latest time at which a request ended; null if none has ended. */
  readonly firstAt: number;
  readonly lastAt: number;
  readonly endedAt: number | null;
}

/** Queries of the sessions of agents. */
export interface AgentSessions {
  /** Returns a page of session ids; null if `after` is not a `next` of this list. */
  agentSessions(query: AgentSessionQuery): Promise<AgentSessionPage | null>;
  agentSums(query: AgentSumsQuery): Promise<readonly AgentSums[]>;
}
