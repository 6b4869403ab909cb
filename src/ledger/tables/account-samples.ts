import type { AccountSample, LedgerTotals } from "../../core/account.ts";
import { sources, type Source } from "../../core/charge.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { AccountSamples } from "../../ports/account-samples.ts";
import { write } from "../queries/query.ts";
import { all, insert, marks, one, type Table } from "./table.ts";

interface SampleRow {
  readonly asked_at: number;
  readonly answered_at: number;
  readonly account: string | null;
  readonly figures: string;
  readonly ledger_before: string;
  readonly ledger_after: string;
}

const select = "select asked_at, answered_at, account, figures, ledger_before, ledger_after from account_samples";

function sampleOf(row: SampleRow): AccountSample {
  return {
    askedAt: row.asked_at,
    answeredAt: row.answered_at,
    account: row.account,
    figures: JSON.parse(row.figures),
    before: totalsOf(row.ledger_before),
    after: totalsOf(row.ledger_after),
  };
}

/** Formats totals as JSON, with amounts as text in pico-USD. */
function textOf(totals: LedgerTotals): string {
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
  // Samples of earlier versions have no doubts, because no charge had any then.
  return {
    ...stored,
    posted: amounts(stored.posted),
    inDoubt: amounts(stored.inDoubt ?? {}),
    held: BigInt(stored.held) as PicoUsd,
  };
}

export const samples: Table<AccountSamples, "add" | "remove"> = {
  queries: {
    *list(since, until) {
      const sql = `${select} where asked_at >= ? and asked_at < ? order by asked_at`;
      return (yield* all<SampleRow>(sql, since, until)).map(sampleOf);
    },
    *latest() {
      const row = yield* one<SampleRow>(`${select} order by asked_at desc limit 1`);
      return row && sampleOf(row);
    },
  },
  announces: false,
  unavailable: { add: false },
  writes: {
    *add({ askedAt, answeredAt, account, figures, before, after }) {
      const row = {
        asked_at: askedAt,
        answered_at: answeredAt,
        account,
        figures: JSON.stringify(figures),
        ledger_before: textOf(before),
        ledger_after: textOf(after),
      };
      yield* insert("account_samples", row, "on conflict do nothing");
      return true;
    },
    remove: (askedAts) => write(`delete from account_samples where asked_at in (${marks(askedAts)})`, ...askedAts),
  },
};
