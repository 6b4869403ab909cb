import type { AccountSample } from "../../core/account-sample.ts";
import { sampleOf, totalsText, type SampleRow } from "../rows/account-samples.ts";
import type { Statements } from "./connection.ts";
import { withNumbers } from "./numbers.ts";

export async function readSamples(db: Statements, since: number, until: number): Promise<readonly AccountSample[]> {
  const rows = await db.rows<SampleRow>("select * from account_samples where asked_at >= $1 and asked_at < $2 order by asked_at", [since, until]);
  return rows.map((row) => sampleOf(withNumbers(row)));
}

export async function readLatestSample(db: Statements): Promise<AccountSample | undefined> {
  const row = await db.row<SampleRow>("select * from account_samples order by asked_at desc limit 1");
  return row && sampleOf(withNumbers(row));
}

export async function addSample(db: Statements, sample: AccountSample): Promise<true> {
  const { askedAt, answeredAt, account, figures, before, after } = sample;
  await db.run(
    `insert into account_samples (asked_at, answered_at, account, figures, ledger_before, ledger_after) values ($1, $2, $3, $4, $5, $6)
     on conflict do nothing`,
    [askedAt, answeredAt, account, JSON.stringify(figures), totalsText(before), totalsText(after)],
  );
  return true;
}

export async function removeSamples(db: Statements, askedAts: readonly number[]): Promise<number> {
  return db.run("delete from account_samples where asked_at = any($1)", [askedAts]);
}
