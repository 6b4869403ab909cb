import type { Charge } from "../core/charge.ts";
import { decidingPrice, itemize } from "../core/cost.ts";
import { formatRate, formatUsd, formatUsdOrNull, sum } from "../core/money.ts";
import type { ChargePage, PricedTerms } from "../ports/ledger.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import type { NameOf } from "./names.ts";
import type { ChargeDetailsJson, ChargeJson, ChargeListJson, LiveJson } from "./shapes/charges.ts";
import type { Doubt } from "../core/usage.ts";
import type { PriceVersion } from "../core/price.ts";
import type { RecentCursor, RecentQuery } from "../ports/spend.ts";

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
    user: charge.user,
    labels: charge.labels,
    correction: correctionOf(charge),
    doubts: charge.doubts,
    cost_in_doubt_usd: formatUsd(charge.inDoubt),
    service_tier: charge.billing.serviceTier,
    tool_calls: charge.billing.calls,
    delivered: charge.delivered,
    units: charge.consumption?.units ?? null,
    unit_type: charge.consumption?.type ?? null,
    served_price_version: charge.servedPriceId,
    runs: charge.runs.map(({ model, priceId, promptTokens, tokens }) => ({
      model,
      price_version: priceId,
      prompt_tokens: promptTokens,
      tokens,
    })),
  };
}

/**
 * Returns the details of a correction; null for other charges. `at` is the time of the correction; the row's `time` is
 * the time of the corrected charge.
 */
function correctionOf({ adjusts, adjustedBy, reason, endedAt }: Charge) {
  if (adjusts === null || endedAt === null) return null;
  return { of: adjusts, by: adjustedBy, at: isoTime(endedAt), why: reason };
}

/** Returns one charge with its corrections, newest first, their total, and the items of its cost. */
export function chargeDetailsJson(
  charge: Charge,
  corrections: readonly Charge[],
  nameOf: NameOf,
  prices: PricedTerms | undefined,
): ChargeDetailsJson {
  const costs = [charge, ...corrections].map(({ cost }) => cost).filter((cost) => cost !== null);
  return {
    ...chargeJson(charge, nameOf),
    corrections: corrections.map((correction) => chargeJson(correction, nameOf)),
    total_usd: costs.length === 0 ? null : formatUsd(sum(costs)),
    ...itemizedJson(charge, prices),
  };
}

export function chargesJson(page: ChargePage, nameOf: NameOf): ChargeListJson {
  return {
    charges: page.charges.map((charge) => chargeJson(charge, nameOf)),
    next: page.next,
    examined_to: isoTimeOrNull(page.examinedTo),
  };
}

/** Explains a charge's amount: returns the items that add up to it, its prices, and how the amount is known. */
function itemizedJson({ tokens, ...charge }: Charge, prices: PricedTerms | undefined) {
  const isPriced = charge.formula === "tokens" || charge.formula === "per_request";
  const items =
    prices === undefined || !isPriced
      ? []
      : itemize(decidingPrice(prices, tokens, prices.billing), tokens, prices.billing);
  return {
    ended_at: isoTimeOrNull(charge.endedAt),
    formula: charge.formula,
    reason: charge.reason,
    clamped: charge.clamped,
    retry: charge.retry,
    items: items.map((item) => ({
      class: item.class,
      tool: item.tool ?? null,
      model: item.price?.version.model ?? null,
      tokens: item.tokens,
      usd_per_million: item.rate === null ? null : formatRate(item.rate),
      cost_usd: formatUsd(item.cost),
      list_usd_per_million: item.listRate === null ? null : formatRate(item.listRate),
      list_cost_usd: formatUsd(item.listCost),
      tier_from: item.tierFrom,
    })),
    price: prices === undefined ? null : priceJson(prices.price),
    served_price: prices === undefined || prices.servedPrice === null ? null : priceJson(prices.servedPrice),
    known: [knownBy(charge), ...doubtsOf(charge)].join(" "),
  };
}

function priceJson({ model, from, source, fraction, minimum }: PriceVersion) {
  return { model, from, source, fraction, minimum: { tokens: minimum.tokens, usd: formatUsd(minimum.usd) } };
}

/** Text of each doubt. It completes a sentence that begins with "The bill may differ:". */
export const doubtPhrases: Readonly<Record<Doubt, string>> = {
  unknown_output: "the answer has output that Farebox does not know",
  unknown_field: "the request has a field that Farebox does not know",
  served_model: "a model other than the requested one answered",
  service_tier: "the service tier, speed or region that answered has no known rate",
  hosted_tool: "the fee of a hosted tool that was used, or the number of tokens that it added, is unknown",
  usage_contradicts: "the reported usage contradicts itself",
  usage_unknown_class:
    "the reported usage has a count that Farebox does not know, or does not separate sound or images from text",
  task_consumption: "the task's record does not say what it consumed",
  time_based: "the output is estimated from the time that the model ran",
  image_bound: "images of unknown size, audio or files are counted at their upper bound",
};

function doubtsOf({ doubts }: Pick<Charge, "doubts">): string[] {
  return doubts.length === 0 ? [] : [`The bill may differ: ${doubts.map((doubt) => doubtPhrases[doubt]).join("; ")}.`];
}

/** Explains in one or two sentences how the amount is known. */
function knownBy({
  state,
  formula,
  source,
  clamped,
}: Pick<Charge, "state" | "formula" | "source" | "clamped">): string {
  if (state === "pending") return "The request is still running; the most that it can cost is held.";
  if (state === "voided") return "It cost nothing.";
  switch (formula) {
    case "adjustment":
      return "This row corrects another charge, or sums up pruned charges.";
    case "unpriced":
      return "No price file has a price for it, so its cost is unknown.";
    case "task":
      return "The task's own record states what it used.";
    default:
  }
  switch (source) {
    case "reported":
      return clamped
        ? "The gateway reported these tokens; its figures contradicted each other, and the more expensive ones count."
        : "The gateway reported these tokens.";
    case "counted":
      return "The gateway reported no usage; the tokens of the whole answer were counted.";
    case "partial":
      return "The answer was cut off; the part that was delivered was counted.";
    default:
      return "Its usage is unknown, so the whole hold was charged.";
  }
}

/** Returns the latest charges, newest first, with the cursor for the next poll. */
export function recentJson(
  { charges, cursor }: { readonly charges: readonly Charge[]; readonly cursor: RecentCursor },
  nameOf: NameOf,
): LiveJson {
  return {
    charges: charges.map((charge) => chargeJson(charge, nameOf)),
    cursor: `${cursor.written}.${cursor.endedAt}`,
  };
}

/**
 * Returns the query for the ledger; null for an invalid cursor. A query with a cursor does not filter by state, because
 * settling changes the state.
 */
export function recentQueryOf({
  after: text,
  ...query
}: Omit<RecentQuery, "after"> & { readonly after?: string | undefined }): RecentQuery | null {
  if (text === undefined) return query;
  const after = readCursor(text);
  return after && { ...query, after, state: undefined };
}

function readCursor(text: string): RecentCursor | null {
  const [, written, endedAt] = /^(\d{1,15})\.(\d{1,15})$/.exec(text) ?? [];
  return written === undefined || endedAt === undefined ? null : { written: Number(written), endedAt: Number(endedAt) };
}
