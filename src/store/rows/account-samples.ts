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
  const stored = JSON.parse(text) as Omit<LedgerTotals, "posted" | "held"> & { posted: Record<Source, string>; held: string };
  const posted = Object.fromEntries(sources.map((source) => [source, BigInt(stored.posted[source])])) as LedgerTotals["posted"];
  return { ...stored, posted, held: BigInt(stored.held) as PicoUsd };
}
