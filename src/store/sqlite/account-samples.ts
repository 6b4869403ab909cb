import type { AccountSample } from "../../core/account-sample.ts";
import { totalsText } from "../rows/account-samples.ts";
import type { Connection } from "./connection.ts";

export function addSample(db: Connection, sample: AccountSample): true {
  const { askedAt, answeredAt, account, figures, before, after } = sample;
  db.prepare("insert into account_samples values (?, ?, ?, ?, ?, ?) on conflict do nothing").run(
    askedAt,
    answeredAt,
    account,
    JSON.stringify(figures),
    totalsText(before),
    totalsText(after),
  );
  return true;
}

export function removeSamples(db: Connection, askedAts: readonly number[]): number {
  const remove = db.prepare("delete from account_samples where asked_at = ?");
  return askedAts.reduce((count, askedAt) => count + remove.run(askedAt).changes, 0);
}
