import {
  comparisonOf,
  billFactor,
  explainingGroups,
  reconcile,
  type GroupCost,
  type GroupExplanation,
  type ReconcileResult,
  type Reconciliation,
} from "../core/reconciliation.ts";
import { formatRate, formatUsd, formatUsdOrNull, subtract, type PicoUsd, type PicoUsdPerToken } from "../core/money.ts";
import type { AccountSamples } from "../ports/stores.ts";
import type { Catalogue } from "../ports/catalogue.ts";
import type { LedgerQueries } from "../ports/ledger.ts";
import { isoTime } from "../core/time.ts";
import type { ReconciliationJson } from "./shapes/figures.ts";

/**
 * Compares the ledger with the account between the first and last sample in a half-open span. Times are in milliseconds
 * since 1970 UTC.
 */
export async function runReconciliation(
  { ledger, samples }: { readonly ledger: LedgerQueries; readonly samples: Pick<AccountSamples, "list"> },
  span: { readonly since: number; readonly until: number },
): Promise<ReconcileResult> {
  const listed = await samples.list(span.since, span.until);
  const [first, last] = [listed[0], listed.at(-1)];
  if (first === undefined || last === undefined) return { ok: false, reason: "too_few" };
  return reconcile(listed, await ledger.corrections(first.askedAt, last.askedAt));
}

/** Returns the reason why nothing can be compared, as a sentence without a period. */
export function whyNotReconciled(reason: Extract<ReconcileResult, { ok: false }>["reason"]): string {
  return reason === "no_measure"
    ? "the account record states no balance in USD, so the value of its credits is unknown"
    : "this span has fewer than two samples of the account; one is taken each minute while there is traffic";
}

/**
 * Returns the price groups for which a different fraction would explain the whole difference. Omits groups whose
 * current fraction is unknown.
 */
export async function groupsExplaining(
  ledger: LedgerQueries,
  catalogue: Catalogue,
  found: Reconciliation,
): Promise<readonly GroupExplanation[]> {
  if (found.agrees) return [];
  const fractions = fractionsOf(catalogue, found.last.answeredAt);
  const rows = await ledger.report({ by: ["group"], since: found.first.askedAt, until: found.last.answeredAt + 1 });
  const groups = rows.flatMap(({ dimensions: { group }, cost }): GroupCost[] => {
    const fraction = fractions.get(group ?? "");
    return [{ group: group ?? "", cost, fraction: fraction ?? 0n }];
  });
  return explainingGroups(found, groups).filter(({ insteadOf }) => insteadOf > 0n);
}

/**
 * Returns the fraction of the official price that each group's models are charged, in millionths. Omits groups whose
 * models have different fractions.
 */
function fractionsOf(catalogue: Catalogue, at: number): ReadonlyMap<string, bigint> {
  const seen = new Map<string, Set<bigint>>();
  for (const { group, price } of catalogue.list(at)) {
    const tier = price?.version.tiers[0];
    if (group === null || tier === undefined || tier.list.input === 0n) continue;
    const fractions = seen.get(group) ?? new Set();
    seen.set(group, fractions.add((tier.charged.input * 1_000_000n) / tier.list.input));
  }
  return new Map(
    [...seen].flatMap(([group, fractions]) =>
      fractions.size === 1 ? [...fractions].map((fraction) => [group, fraction] as const) : [],
    ),
  );
}

export function reconciliationJson(
  found: Reconciliation,
  explanations: readonly GroupExplanation[] = [],
): ReconciliationJson {
  const { first, last, samples, measure, requests, ledger, difference, uncertainties, movements, leftOut } = found;
  const comparison = comparisonOf(found);
  return {
    ok: found.agrees,
    comparison,
    why: comparison === "cannot_tell" ? whyUncertain(found) : null,
    since: isoTime(first.askedAt),
    until: isoTime(last.answeredAt),
    samples,
    measure,
    requests,
    ledger_usd: formatUsd(ledger),
    cost_in_doubt_usd: formatUsd(found.inDoubt),
    gateway_usd: formatUsd(found.gateway),
    difference_usd: formatUsd(difference),
    difference_percent: percentOf(difference, ledger),
    factor: factorJson(found),
    explained_by: explanations.map(({ group, fraction, insteadOf, from, to }) => ({
      group,
      fraction: shareText(fraction),
      instead_of: shareText(insteadOf),
      from: shareText(from),
      to: shareText(to),
    })),
    uncertainty: {
      below_usd: formatUsd(found.below),
      above_usd: formatUsdOrNull(found.above),
      items: uncertainties.map(({ kind, below, above }) => ({
        kind,
        below_usd: formatUsd(below),
        above_usd: formatUsdOrNull(above),
      })),
    },
    movements: movements.map(({ kind, amount, isEstimate }) => ({
      kind,
      usd: formatUsd(amount),
      estimate: isEstimate,
    })),
    left_out: leftOut.map(({ since, until, why }) => ({ since: isoTime(since), until: isoTime(until), why })),
    balance: { from_usd: first.figures.equivalent_in_usd ?? null, to_usd: last.figures.equivalent_in_usd ?? null },
  };
}

/** Advice on how to reduce the uncertainty of each kind. It is shown for the kind with the largest uncertainty. */
const remedies: Readonly<Record<Reconciliation["uncertainties"][number]["kind"], string>> = {
  pending: "Requests were running at the start or end of the span; compare again after they have ended.",
  assumed: "Holds were charged after a crash, reset or timeout; compare a span without such charges.",
  partial: "Answers were cut off, so their cost is estimated; compare a span with fewer of them.",
  counted: "The gateway reported no usage for some answers; compare a span in which it does.",
  in_doubt: "Some charges have doubts; the details of each charge say what Farebox does not know.",
  unpriced: "Some models have no price; add their prices, and compare later requests.",
  rounding: "The account record is rounded too coarsely for so small an amount; compare a longer span.",
};

/** Returns a sentence that says how to reduce the uncertainty. */
function whyUncertain({ requests, uncertainties }: Reconciliation): string {
  if (requests === 0) return "No request ended in this span; compare a span with requests.";
  const sizeOf = ({ below, above }: Reconciliation["uncertainties"][number]) =>
    above === null ? null : below > above ? below : above;
  const [largest] = uncertainties.toSorted((a, b) => {
    const [x, y] = [sizeOf(a), sizeOf(b)];
    if (x === null || y === null) return (x === null ? 0 : 1) - (y === null ? 0 : 1);
    return x < y ? 1 : -1;
  });
  return remedies[largest?.kind ?? "rounding"];
}

/** Returns the part of the difference that the uncertainty does not explain; zero if there is none. */
export function beyondUncertainty({ difference, below, above }: Reconciliation): PicoUsd {
  if (difference < -below) return (-difference - below) as PicoUsd;
  return above !== null && difference > above ? subtract(difference, above) : (0n as PicoUsd);
}

function factorJson(found: Reconciliation): ReconciliationJson["factor"] {
  const factor = billFactor(found);
  if (factor === null) return null;
  const { value, from, to } = factor;
  return {
    value: shareText(value),
    from: from === null ? null : shareText(from),
    to: to === null ? null : shareText(to),
  };
}

/** Formats millionths as a decimal with at least two places, such as "0.75". */
function shareText(millionths: bigint): string {
  return formatRate(millionths as PicoUsdPerToken);
}

/** Returns `part` in percent of `whole`, with four decimals, rounded towards zero; null if `whole` is not positive. */
function percentOf(part: PicoUsd, whole: PicoUsd): number | null {
  return whole <= 0n ? null : Number((part * 1_000_000n) / whole) / 10_000;
}
