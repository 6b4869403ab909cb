import type { AccountSample, LedgerTotals } from "../../core/account.ts";
import { sources, type Source } from "../../core/charge.ts";
import type { PicoUsd } from "../../core/money.ts";
import type { AccountSamples } from "../../ports/stores.ts";
import { write } from "../queries/query.ts";
import { all, Columns, insert, marks, one, type Table } from "./table.ts";

type SampleRow = Pick<AccountSample, "askedAt" | "answeredAt" | "account"> &
  Readonly<Record<"figures" | "ledgerBefore" | "ledgerAfter", string>>;

const columns = new Columns("askedAt", "answeredAt", "account", "figures", "ledgerBefore", "ledgerAfter");
const select = `select ${columns.select} from account_samples`;

function sampleOf({ figures, ledgerBefore, ledgerAfter, ...row }: SampleRow): AccountSample {
  return { ...row, figures: JSON.parse(figures), before: totalsOf(ledgerBefore), after: totalsOf(ledgerAfter) };
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
  // Samples of earlier versions have no amounts in doubt, because charges had no doubts then.
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
    *add({ figures, before, after, ...sample }) {
      const texts = { figures: JSON.stringify(figures), ledgerBefore: textOf(before), ledgerAfter: textOf(after) };
      yield* insert("account_samples", columns.rowOf({ ...sample, ...texts }), "on conflict do nothing");
      return true;
    },
    remove: (askedAts) => write(`delete from account_samples where asked_at in (${marks(askedAts)})`, ...askedAts),
  },
};
