import type { AccountSample } from "../../core/account-sample.ts";
import { totalsText } from "../rows/account-samples.ts";
import type { Statements } from "./connection.ts";

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
