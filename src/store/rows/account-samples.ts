import type { AccountSample, LedgerTotals } from "../../core/account-sample.ts";
import { sources, type Source } from "../../core/charge.ts";
import type { PicoUsd } from "../../core/money.ts";

/** A row of `account_samples`; times fit a number. */
export interface SampleRow {
  readonly asked_at: number;
  readonly answered_at: number;
  readonly account: string | null;
  readonly figures: string;
  readonly ledger_before: string;
  readonly ledger_after: string;
}

export function sampleOf(row: SampleRow): AccountSample {
  return {
    askedAt: row.asked_at,
    answeredAt: row.answered_at,
    account: row.account,
    figures: JSON.parse(row.figures),
    before: totalsOf(row.ledger_before),
    after: totalsOf(row.ledger_after),
  };
}

/** Amounts are pico-USD as text. */
export function totalsText(totals: LedgerTotals): string {
  return JSON.stringify(totals, (_name, value: unknown) => (typeof value === "bigint" ? value.toString() : value));
}

function totalsOf(text: string): LedgerTotals {
  type Amounts = Readonly<Partial<Record<Source, string>>>;
  const stored = JSON.parse(text) as Omit<LedgerTotals, "posted" | "inDoubt" | "held"> & {
    posted: Amounts;
    inDoubt?: Amounts;
    held: string;
  };
  const amounts = (of: Amounts) =>
    Object.fromEntries(sources.map((source) => [source, BigInt(of[source] ?? 0)])) as LedgerTotals["posted"];
  // Samples of earlier versions say nothing of doubts: no charge had any then.
  return {
    ...stored,
    posted: amounts(stored.posted),
    inDoubt: amounts(stored.inDoubt ?? {}),
    held: BigInt(stored.held) as PicoUsd,
  };
}
