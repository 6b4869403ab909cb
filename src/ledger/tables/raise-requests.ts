import { invariant } from "../../core/assert.ts";
import { raiseDenyEntry } from "../../core/audit.ts";
import { isPeriod } from "../../core/budget.ts";
import { formatScope, parseScope } from "../../core/scope.ts";
import type { PicoUsd } from "../../core/money.ts";
import { type RaiseRequest, raiseRequestPauseMs, type RaiseRequests } from "../../ports/stores.ts";
import { Conditions } from "../queries/page.ts";
import { rowsOf, type Query, type Value } from "../queries/query.ts";
import { recordAudit } from "./audit.ts";
import { addRaise, findBudget, lockBudgets } from "./budgets.ts";
import { keyNames, lockedKey } from "./keys.ts";
import { insert, update, type Table } from "./table.ts";

interface Row {
  readonly id: string;
  readonly scope: string;
  readonly period: string;
  readonly subject: string;
  readonly key: string;
  readonly amount: bigint;
  readonly why: string;
  readonly made_at: bigint;
  readonly lapses_at: bigint | null;
  readonly state: RaiseRequest["state"];
  readonly decided_at: bigint | null;
  readonly decided_by: string | null;
  readonly granted: bigint | null;
  readonly until: bigint | null;
}

function requestOf(row: Row): RaiseRequest {
  const { id, period, subject, key, why, state } = row;
  const scope = parseScope(row.scope);
  invariant(scope !== undefined && isPeriod(period), `the budget of request ${id} must be valid`);
  const timeOf = (value: bigint | null) => (value === null ? null : Number(value));
  return {
    id,
    budget: { scope, period },
    subject,
    key,
    amount: row.amount as PicoUsd,
    why,
    at: Number(row.made_at),
    lapsesAt: timeOf(row.lapses_at),
    state,
    decidedAt: timeOf(row.decided_at),
    decidedBy: row.decided_by,
    granted: row.granted as PicoUsd | null,
    until: timeOf(row.until),
  };
}

function* select(condition: string, values: readonly Value[]): Query<readonly RaiseRequest[]> {
  const sql = `select id, scope, period, subject, key, amount, why, made_at, lapses_at, state, decided_at, decided_by, granted, until
    from raise_requests r join budgets b on b.seq = r.budget where ${condition}`;
  return (yield* rowsOf<Row>({ sql, values })).map(requestOf);
}

function* find(id: string): Query<RaiseRequest | undefined> {
  return (yield* select("id = ?", [id]))[0];
}

/** Returns the request if it can still be decided, otherwise the reason why not. */
function* openRequest(id: string, at: number) {
  const request = yield* find(id);
  if (request === undefined) return { ok: false, reason: "no_such_request" } as const;
  if (request.state !== "open") return { ok: false, reason: "decided" } as const;
  if (request.lapsesAt !== null && request.lapsesAt <= at) return { ok: false, reason: "lapsed" } as const;
  return { ok: true, request } as const;
}

export const raiseRequests: Table<RaiseRequests, "create" | "approve" | "deny"> = {
  queries: {
    list({ key, isOpen = false, at, limit }) {
      const where = new Conditions().add("key = ?", key);
      if (isOpen) where.add("state = 'open' and (lapses_at is null or lapses_at > ?)", at);
      return select(`${where.sql} order by made_at desc, r.seq desc limit ?`, [...where.values, limit]);
    },
    find,
  },
  announces: (result) => (result as { readonly request?: RaiseRequest }).request?.state === "approved",
  writes: {
    *create({ id, budget: { scope, period }, subject, key, amount, why, at, lapsesAt }) {
      // This lock makes requests of the same key wait for each other. Admissions do not wait for it.
      yield* lockedKey(key);
      const budget = yield* findBudget(formatScope(scope), period);
      if (budget === undefined) return { ok: false, reason: "no_such_budget" };
      const [latest] = yield* select("key = ? and budget = ? order by made_at desc limit 1", [key, budget.seq]);
      if (latest?.state === "open" && (latest.lapsesAt === null || latest.lapsesAt > at))
        return { ok: false, reason: "open" };
      if (latest !== undefined && latest.at > at - raiseRequestPauseMs) return { ok: false, reason: "too_soon" };
      const row = {
        id,
        budget: budget.seq,
        subject,
        key,
        amount,
        why,
        made_at: at,
        lapses_at: lapsesAt,
        state: "open",
      };
      yield* insert("raise_requests", row);
      return { ok: true };
    },
    *approve(id, { amount, from, until }, at, by) {
      yield* lockBudgets();
      const found = yield* openRequest(id, at);
      if (!found.ok) return found;
      const { budget, subject, why } = found.request;
      const { scope, period } = budget;
      const raise = { scope: formatScope(scope), period, subject, amount, from, until, why };
      const raised = yield* addRaise(raise, { at, by });
      if (!raised.ok) return { ok: false, reason: raised.reason === "too_large" ? "too_large" : "no_such_request" };
      const columns = { state: "approved", decided_at: at, decided_by: by, granted: amount, until };
      yield* update("raise_requests", columns, "id = ?", id);
      const decided = { state: "approved", decidedAt: at, decidedBy: by, granted: amount, until } as const;
      return { ok: true, request: { ...found.request, ...decided } };
    },
    *deny(id, at, by) {
      yield* lockBudgets();
      const found = yield* openRequest(id, at);
      if (!found.ok) return found;
      const { budget, subject } = found.request;
      yield* update("raise_requests", { state: "denied", decided_at: at, decided_by: by }, "id = ?", id);
      yield* recordAudit(raiseDenyEntry(found.request, yield* keyNames(budget, subject), { at, by }));
      return { ok: true, request: { ...found.request, state: "denied", decidedAt: at, decidedBy: by } };
    },
  },
};
