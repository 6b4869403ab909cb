import type { Charge, Delivered } from "../../core/charge.ts";
import { standardBilling, type Billing } from "../../core/cost.ts";
import { parseDoubts, tokenClasses, type TokenClass, type TokenCounts } from "../../core/usage.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { HoldBasis } from "../../core/bounds.ts";
import { parseRuns } from "../../core/runs.ts";
import type { ChargeRow } from "../charge-columns.ts";

/** SQL columns that `chargeOf` needs: all columns of the charge, and the consumption of its task. */
export const chargeColumns = `*, case when kind = 'task' then (select t.usage_type from tasks t where t.charge = id) end as unit_type,
  case when kind = 'task' then (select t.usage_units from tasks t where t.charge = id) end as units`;

/** Row of `charges` with the consumption of its task. */
export type ShownChargeRow = ChargeRow & { readonly unit_type: string | null; readonly units: string | null };

export function chargeOf(row: ShownChargeRow): Charge {
  return {
    id: row.id,
    kind: row.kind,
    state: row.state,
    at: Number(row.admitted_at),
    endedAt: numberOrNull(row.ended_at),
    key: row.key,
    team: row.team,
    route: row.route,
    model: row.model,
    servedModel: row.served_model,
    group: row.price_group,
    stream: row.stream === 1n,
    priceId: row.price_id,
    servedPriceId: row.served_price_id,
    hold: row.hold,
    basis: basisOf(row),
    cost: row.cost,
    listCost: row.list_cost,
    overage: row.overage,
    formula: row.formula,
    source: row.source,
    minimumApplied: row.minimum_applied === 1n,
    clamped: row.clamped === 1n,
    tokens: tokensOf(row),
    billing: billingOf(row),
    runs: parseRuns(row.runs),
    doubts: parseDoubts(row.doubts),
    inDoubt: row.in_doubt as PicoUsd,
    delivered: deliveredOf(row),
    status: numberOrNull(row.status),
    reason: row.reason,
    gatewayRequestId: row.gateway_request_id,
    durationMs: row.duration_ms,
    firstTokenMs: row.first_token_ms,
    ...countedFor(row),
    consumption: row.unit_type === null || row.units === null ? null : { type: row.unit_type, units: row.units },
    retry: Number(row.retry),
    adjusts: row.adjusts,
    adjustedBy: row.adjusted_by,
  };
}

const noValues: Readonly<Record<string, string>> = {};

/** Returns the values by which budgets count a charge, in addition to its key and team. */
export function countedFor(
  row: Pick<ChargeRow, "model" | "tags" | "labels" | "end_user" | "entry" | "entries">,
): Pick<Charge, "tags" | "labels" | "user" | "models"> {
  return {
    tags: row.tags === null ? noValues : JSON.parse(row.tags),
    user: row.end_user,
    labels: row.labels === null ? noValues : JSON.parse(row.labels),
    models: row.entries === null ? [row.entry ?? row.model] : JSON.parse(row.entries),
  };
}

export function tokensOf(row: Readonly<Record<TokenClass, bigint>>): TokenCounts {
  const tokens: Partial<Record<TokenClass, number>> = {};
  for (const name of tokenClasses) tokens[name] = Number(row[name]);
  return tokens as TokenCounts;
}

export function billingOf({
  service_tier: serviceTier,
  tool_calls: calls,
}: Pick<ChargeRow, "service_tier" | "tool_calls">): Billing {
  return serviceTier === null && calls === null
    ? standardBilling
    : { serviceTier, calls: calls === null ? {} : JSON.parse(calls) };
}

export function deliveredOf({
  delivered_input: input,
  delivered_output: output,
}: Pick<ChargeRow, "delivered_input" | "delivered_output">): Delivered | null {
  return input === null || output === null ? null : { input: Number(input), output: Number(output) };
}

type Whole = number | bigint | null;

export function basisOf(row: {
  readonly held_by: string | null;
  readonly held_output: Whole;
  readonly output_cap: Whole;
  readonly fitted: Whole;
}): HoldBasis | null {
  if (row.held_by === null) return null;
  return {
    by: row.held_by,
    outputTokens: numberOrNull(row.held_output),
    outputCap: numberOrNull(row.output_cap),
    fitted: numberOrNull(row.fitted),
  };
}

function numberOrNull(value: Whole): number | null {
  return value === null ? null : Number(value);
}
