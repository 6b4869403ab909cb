import { formatUsd, larger, noMoney, subtract, sum, type PicoUsd } from "../core/money.ts";
import { sessionTag, stateOfSession, type RunSession } from "../core/keys.ts";
import type { LedgerQueries, ReportRow } from "../ports/ledger.ts";
import { dayMs, isoTime, isoTimeOrNull } from "../core/time.ts";
import { agentsJson, cutJson } from "./agent-sessions.ts";
import { addSums, figuresOf, noSums } from "./report.ts";
import type { RunSessionJson } from "./shapes/figures.ts";

/** Returns a session with the sums of its charges so far. */
export async function sessionJson(
  ledger: LedgerQueries,
  session: Omit<RunSession, "secret">,
  keyName: string,
  now: number,
): Promise<RunSessionJson> {
  const { id, key, tags, budget, createdAt, expiresAt, endedAt } = session;
  // The span extends a day on each side, in case the clock was changed during the session.
  const span = { since: Math.max(0, createdAt - dayMs), until: Math.max(expiresAt, now) + dayMs };
  // Read pending charges before the sums: a request that settles in between is then counted twice instead of missed.
  const { charges } = await ledger.charges({
    key,
    state: "pending",
    tag: { name: sessionTag, value: id },
    limit: 1000,
  });
  const rows = await ledger.report({ by: ["model"], ...span, session: id });
  const ofAgents = await ledger.agentSums({ of: { run: id } });
  const held = sum(charges.map(({ hold }) => hold ?? noMoney));
  const total = rows.reduce(addSums, noSums);
  const left = budget === null ? noMoney : subtract(subtract(budget, total.cost), held);
  return {
    id,
    key: keyName,
    state: stateOfSession(session, now),
    created_at: isoTime(createdAt),
    expires_at: isoTime(expiresAt),
    ended_at: isoTimeOrNull(endedAt),
    tags,
    budget: budget === null ? null : { limit_usd: formatUsd(budget), remaining_usd: formatUsd(larger(noMoney, left)) },
    pending: { requests: charges.length, held_usd: formatUsd(held) },
    ...sessionFigures(total),
    cut: cutJson(ofAgents),
    models: rows.map((row) => ({ model: row.dimensions.model ?? null, ...sessionFigures(row) })),
    agents: agentsJson(ofAgents),
  };
}

function sessionFigures(sums: Omit<ReportRow, "dimensions">) {
  const { requests, tokens, cost_usd, list_cost_usd, unpriced_requests, by_source } = figuresOf(sums);
  const estimated = Object.entries(sums.bySource).filter(([source]) => source !== "reported");
  const cost: PicoUsd = sum(estimated.map(([, part]) => part.cost));
  return {
    requests,
    tokens,
    cost_usd,
    list_cost_usd,
    unpriced_requests,
    by_source,
    estimated: {
      requests: estimated.reduce((count, [, part]) => count + part.requests, 0),
      cost_usd: formatUsd(cost),
    },
  };
}
