import type { LedgerTotals } from "../../core/account.ts";
import type { Source } from "../../core/charge.ts";
import { noMoney, type PicoUsd } from "../../core/money.ts";
import type { LedgerCorrection } from "../../core/reconciliation.ts";
import { rowsOf, sumSql, type Query } from "./query.ts";
import { sumRawUnits, type RawUnits } from "../../core/task-settlement.ts";
import type { TimeSpan } from "../../ports/ledger.ts";

interface PostedRow {
  readonly source: Source;
  readonly cost: PicoUsd;
  readonly in_doubt: PicoUsd;
  readonly requests: bigint;
  readonly unpriced: bigint;
}

interface PendingRow {
  readonly pending: bigint;
  readonly unpriced: bigint;
  readonly held: PicoUsd;
  readonly last: bigint;
}

/** Returns the totals of the ledger. Posted amounts come from the daily rollup, which includes pruned charges. */
export function* readTotals(): Query<LedgerTotals> {
  const posted: Record<Source, PicoUsd> = { reported: noMoney, counted: noMoney, partial: noMoney, assumed: noMoney };
  const inDoubt = { ...posted };
  let [requests, unpriced] = [0, 0];
  const sums = yield* rowsOf<PostedRow>({
    sql: `select source, ${sumSql("cost")} as cost, ${sumSql("in_doubt")} as in_doubt, ${sumSql("requests")} as requests, ${sumSql("unpriced")} as unpriced
      from rollup_day group by source`,
    values: [],
  });
  for (const row of sums) {
    posted[row.source] = row.cost;
    inDoubt[row.source] = row.in_doubt;
    requests += Number(row.requests);
    unpriced += Number(row.unpriced);
  }
  const [row] = yield* rowsOf<PendingRow>({
    sql: `select count(*) as pending, count(*) - count(hold) as unpriced, ${sumSql("hold")} as held, (select coalesce(max(seq), 0) from charges) as last
      from charges where state = 'pending'`,
    values: [],
  });
  const { pending = 0n, unpriced: pendingUnpriced = 0n, held = noMoney, last = 0n } = row ?? {};
  return {
    written: Number(last),
    posted,
    inDoubt,
    requests,
    unpriced,
    pending: Number(pending),
    pendingUnpriced: Number(pendingUnpriced),
    held,
  };
}

/**
 * Returns the corrections made in a span, and the corrections of charges that ended in the span. `since` is inclusive,
 * `until` exclusive.
 */
export function* readCorrections(since: number, until: number): Query<readonly LedgerCorrection[]> {
  const rows = yield* rowsOf<{ made_at: bigint; of_charge_at: bigint; cost: PicoUsd }>({
    sql: `select correction.ended_at as made_at, corrected.ended_at as of_charge_at, correction.cost
      from charges correction join charges corrected on corrected.id = correction.adjusts
      where correction.adjusts is not null and (correction.ended_at >= ? and correction.ended_at < ?
        or corrected.ended_at >= ? and corrected.ended_at < ?)
      order by correction.ended_at, correction.seq`,
    values: [since, until, since, until],
  });
  return rows.map((row) => ({ madeAt: Number(row.made_at), ofChargeAt: Number(row.of_charge_at), amount: row.cost }));
}

interface UnitsRow {
  readonly type: string;
  readonly units: string;
  readonly tasks: bigint;
}

/** Implements `LedgerQueries.rawUnits`. */
export function* readRawUnits({ since, until }: TimeSpan): Query<readonly RawUnits[]> {
  const rows = yield* rowsOf<UnitsRow>({
    sql: `select t.usage_type as type, t.usage_units as units, count(*) as tasks from tasks t join charges c on c.id = t.charge
      where t.usage_type is not null and t.units_per_usd is null and t.usage_units <> '0' and c.state = 'posted' and c.admitted_at >= ? and c.admitted_at < ?
      group by t.usage_type, t.usage_units`,
    values: [since, until],
  });
  return sumRawUnits(rows.map(({ tasks, ...row }) => ({ ...row, tasks: Number(tasks) })));
}
