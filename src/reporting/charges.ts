import type { Charge } from "../core/charge.ts";
import type { ChargePrices } from "../core/cost.ts";
import { formatUsd, formatUsdOrNull, sum } from "../core/money.ts";
import type { ChargePage } from "../ports/ledger.ts";
import { itemisedJson } from "./itemised.ts";
import { isoTime, type NameOf } from "./names.ts";
import type { ChargeDetailsJson, ChargeJson, ChargeListJson } from "./shapes/charges.ts";

export function chargeJson(charge: Charge, nameOf: NameOf): ChargeJson {
  return {
    request_id: charge.id,
    gateway_request_id: charge.gatewayRequestId,
    time: isoTime(charge.at),
    key: nameOf(charge.key),
    team: charge.team,
    route: charge.route,
    model: charge.model,
    served_model: charge.servedModel,
    group: charge.group,
    state: charge.state,
    source: charge.source,
    stream: charge.stream,
    status: charge.status,
    tokens: charge.tokens,
    cost_usd: formatUsdOrNull(charge.cost),
    list_cost_usd: formatUsdOrNull(charge.listCost),
    minimum_applied: charge.minimumApplied,
    hold_usd: formatUsdOrNull(charge.hold),
    held_for: charge.basis && { output_tokens: charge.basis.outputTokens, by: charge.basis.by },
    output_cap: charge.basis?.outputCap ?? null,
    fitted: charge.basis?.fitted ?? null,
    overage_usd: formatUsd(charge.overage),
    price_version: charge.priceId,
    duration_ms: charge.durationMs,
    first_token_ms: charge.firstTokenMs,
    tags: charge.tags,
    correction: correctionOf(charge),
    doubts: charge.doubts,
    cost_in_doubt_usd: formatUsd(charge.inDoubt),
    service_tier: charge.billing.serviceTier,
    tool_calls: charge.billing.calls,
    delivered: charge.delivered,
    units: charge.consumption?.units ?? null,
    unit_type: charge.consumption?.type ?? null,
    served_price_version: charge.servedPriceId,
  };
}

/** What a correction says of itself; null for a charge that is none. Its own time is `at`, beside the corrected charge's `time`. */
function correctionOf({ adjusts, adjustedBy, reason, endedAt }: Charge) {
  if (adjusts === null || endedAt === null) return null;
  return { of: adjusts, by: adjustedBy, at: isoTime(endedAt), why: reason };
}

/** One charge with its corrections, newest first, what all of them come to, and how its amount comes about by its price. */
export function chargeDetailsJson(
  charge: Charge,
  corrections: readonly Charge[],
  nameOf: NameOf,
  prices: ChargePrices | undefined,
): ChargeDetailsJson {
  const costs = [charge, ...corrections].map(({ cost }) => cost).filter((cost) => cost !== null);
  return {
    ...chargeJson(charge, nameOf),
    corrections: corrections.map((correction) => chargeJson(correction, nameOf)),
    total_usd: costs.length === 0 ? null : formatUsd(sum(costs)),
    ...itemisedJson(charge, prices),
  };
}

export function chargesJson(page: ChargePage, nameOf: NameOf): ChargeListJson {
  return { charges: page.charges.map((charge) => chargeJson(charge, nameOf)), next: page.next };
}
