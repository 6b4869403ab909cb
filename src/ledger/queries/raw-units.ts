import { sumRawUnits } from "../../core/raw-units.ts";
import type { RawUnits, TimeSpan } from "../../ports/ledger.ts";
import { rowsOf, type Query } from "./query.ts";

interface UnitsRow {
  readonly type: string;
  readonly units: string;
  readonly tasks: bigint;
}

/** See the ledger's port. */
export function* readRawUnits({ since, until }: TimeSpan): Query<readonly RawUnits[]> {
  const rows = yield* rowsOf<UnitsRow>({
    sql: `select t.usage_type as type, t.usage_units as units, count(*) as tasks from tasks t join charges c on c.id = t.charge
      where t.usage_type is not null and t.units_per_usd is null and t.usage_units <> '0' and c.state = 'posted' and c.admitted_at >= ? and c.admitted_at < ?
      group by t.usage_type, t.usage_units`,
    values: [since, until],
  });
  return sumRawUnits(rows.map(({ tasks, ...row }) => ({ ...row, tasks: Number(tasks) })));
}
