import { formatUsd, subtract, type PicoUsd } from "../core/money.ts";
import { reconcile, type Reconciliation, type ReconcileResult } from "../core/reconciliation.ts";
import type { AccountSamples } from "../ports/account-samples.ts";
import type { Ledger } from "../ports/ledger.ts";
import { isoTime } from "./names.ts";

/** CONTRACT's `reconcile`. Amounts in USD; null is without a bound, or, for the percentage, nothing to divide by. */
export interface ReconciliationJson {
  readonly ok: boolean;
  readonly since: string;
  readonly until: string;
  readonly samples: number;
  readonly measure: Reconciliation["measure"];
  readonly requests: number;
  readonly ledger_usd: string;
  /** Of the ledger's sum, that of charges with doubts. */
  readonly cost_in_doubt_usd: string;
  readonly gateway_usd: string;
  /** Above zero when the gateway billed more than the ledger says. */
  readonly difference_usd: string;
  readonly difference_percent: number | null;
  readonly uncertainty: {
    readonly below_usd: string;
    readonly above_usd: string | null;
    readonly items: readonly { readonly kind: string; readonly below_usd: string; readonly above_usd: string | null }[];
  };
  readonly movements: readonly { readonly kind: string; readonly usd: string; readonly estimate: boolean }[];
  readonly left_out: readonly { readonly since: string; readonly until: string; readonly why: string }[];
  readonly balance: { readonly from_usd: string | null; readonly to_usd: string | null };
}

/** Compares what the samples of the half-open span allow; milliseconds since 1970 UTC. */
export async function runReconciliation(
  { ledger, samples }: { readonly ledger: Pick<Ledger, "corrections">; readonly samples: Pick<AccountSamples, "list"> },
  span: { readonly since: number; readonly until: number },
): Promise<ReconcileResult> {
  const listed = await samples.list(span.since, span.until);
  const [first, last] = [listed[0], listed.at(-1)];
  if (first === undefined || last === undefined) return { ok: false, reason: "too_few" };
  return reconcile(listed, await ledger.corrections(first.askedAt, last.askedAt));
}

/** Why there is nothing to compare, in a sentence without its full stop. */
export function whyNotReconciled(reason: Extract<ReconcileResult, { ok: false }>["reason"]): string {
  return reason === "no_measure"
    ? "the account record states no balance in USD, so nobody can tell what its credits are worth"
    : "fewer than two samples of the account are in this span; one is taken each minute while there is traffic";
}

export function reconciliationJson(found: Reconciliation): ReconciliationJson {
  const { first, last, samples, measure, requests, ledger, difference, doubts, movements, leftOut } = found;
  return {
    ok: found.agrees,
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
    uncertainty: {
      below_usd: formatUsd(found.below),
      above_usd: usdOrNull(found.above),
      items: doubts.map(({ kind, below, above }) => ({ kind, below_usd: formatUsd(below), above_usd: usdOrNull(above) })),
    },
    movements: movements.map(({ kind, amount, isEstimate }) => ({ kind, usd: formatUsd(amount), estimate: isEstimate })),
    left_out: leftOut.map(({ since, until, why }) => ({ since: isoTime(since), until: isoTime(until), why })),
    balance: { from_usd: first.figures.equivalent_in_usd ?? null, to_usd: last.figures.equivalent_in_usd ?? null },
  };
}

/** How far the difference goes beyond what is uncertain; zero when it does not. */
export function beyondDoubt({ difference, below, above }: Reconciliation): PicoUsd {
  if (difference < -below) return (-difference - below) as PicoUsd;
  return above !== null && difference > above ? subtract(difference, above) : (0n as PicoUsd);
}

/** With four decimals, towards zero. */
function percentOf(part: PicoUsd, whole: PicoUsd): number | null {
  return whole <= 0n ? null : Number((part * 1_000_000n) / whole) / 10_000;
}

function usdOrNull(amount: PicoUsd | null): string | null {
  return amount === null ? null : formatUsd(amount);
}
