import type { AccountSample, LedgerTotals } from "../../core/account-sample.ts";
import type { Source } from "../../core/charge.ts";
import { noMoney, type PicoUsd } from "../../core/money.ts";
import type { CorrectionMade } from "../../core/reconciliation.ts";
import { sampleOf, totalsText, type SampleRow } from "../rows/account-samples.ts";
import type { Connection } from "./connection.ts";

/** The ledger's counters, from one snapshot: the rollup by days has every posted charge, pruned ones too. */
export function readTotals(db: Connection): LedgerTotals {
  return db.transaction(() => {
    const posted: Record<Source, PicoUsd> = { reported: noMoney, counted: noMoney, partial: noMoney, assumed: noMoney };
    let [requests, unpriced] = [0, 0];
    const sums = db
      .prepare("select source, sum(cost) cost, sum(requests) requests, sum(unpriced) unpriced from rollup_day group by source")
      .safeIntegers()
      .all() as { source: Source; cost: PicoUsd; requests: bigint; unpriced: bigint }[];
    for (const row of sums) {
      posted[row.source] = row.cost;
      requests += Number(row.requests);
      unpriced += Number(row.unpriced);
    }
    const pending = db
      .prepare("select count(*) pending, coalesce(sum(hold is null), 0) unpriced, coalesce(sum(hold), 0) held from charges where state = 'pending'")
      .safeIntegers()
      .get() as { pending: bigint; unpriced: bigint; held: PicoUsd };
    const written = Number(db.prepare("select coalesce(max(seq), 0) from charges").pluck().get());
    return { written, posted, requests, unpriced, pending: Number(pending.pending), pendingUnpriced: Number(pending.unpriced), held: pending.held };
  })();
}

/** Corrections that were made in the half-open span, and those of charges that ended in it. */
export function readCorrections(db: Connection, since: number, until: number): readonly CorrectionMade[] {
  return (
    db
      .prepare(
        `select correction.ended_at, corrected.ended_at, correction.cost
         from charges correction join charges corrected on corrected.id = correction.adjusts
         where correction.adjusts is not null and (correction.ended_at >= :since and correction.ended_at < :until
           or corrected.ended_at >= :since and corrected.ended_at < :until)
         order by correction.ended_at, correction.seq`,
      )
      .safeIntegers()
      .raw()
      .all({ since, until }) as [bigint, bigint, PicoUsd][]
  ).map(([madeAt, ofChargeAt, amount]) => ({ madeAt: Number(madeAt), ofChargeAt: Number(ofChargeAt), amount }));
}

export function readSamples(db: Connection, since: number, until: number): readonly AccountSample[] {
  const rows = db.prepare("select * from account_samples where asked_at >= ? and asked_at < ? order by asked_at").all(since, until);
  return (rows as SampleRow[]).map(sampleOf);
}

export function readLatestSample(db: Connection): AccountSample | undefined {
  const row = db.prepare("select * from account_samples order by asked_at desc limit 1").get() as SampleRow | undefined;
  return row && sampleOf(row);
}

export function addSample(db: Connection, sample: AccountSample): true {
  const { askedAt, answeredAt, account, figures, before, after } = sample;
  db.prepare("insert into account_samples values (?, ?, ?, ?, ?, ?) on conflict do nothing").run(
    askedAt, answeredAt, account, JSON.stringify(figures), totalsText(before), totalsText(after),
  );
  return true;
}

export function removeSamples(db: Connection, askedAts: readonly number[]): number {
  const remove = db.prepare("delete from account_samples where asked_at = ?");
  return askedAts.reduce((count, askedAt) => count + remove.run(askedAt).changes, 0);
}
