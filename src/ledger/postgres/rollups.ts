import type { Calendar } from "../../ports/calendar.ts";
import { rollupAmounts, rollupDimensions, rollupSums } from "../rollup-columns.ts";
import type { Statements } from "./connection.ts";

/** Rebuilds the rollup by days from the charges and the carried sums, for another time zone. Under the budgets' lock. */
export async function rebuildDays(db: Statements, calendar: Calendar): Promise<void> {
  await db.run("delete from rollup_day");
  const { dates, starts, ends } = await daysOfCharges(db, calendar);
  await db.run(
    `insert into rollup_day (day, ${[...rollupDimensions, "shard", ...rollupSums].join(", ")})
     select d.day, c.key, coalesce(c.team, ''), c.model, coalesce(c.price_group, ''), c.source, 0,
       sum(case when c.formula = 'adjustment' then coalesce(k.requests, 0) else 1 end),
       sum(case when c.formula = 'adjustment' then coalesce(k.unpriced, 0) when c.cost is null then 1 else 0 end),
       sum(case when c.formula = 'adjustment' then coalesce(k.retries, 0) when c.retry > 0 then 1 else 0 end),
       ${rollupAmounts.map((name) => `coalesce(sum(c.${name}), 0)`).join(", ")}
     from unnest($1::text[], $2::bigint[], $3::bigint[]) d (day, starts_at, ends_at)
     join charges c on c.admitted_at >= d.starts_at and c.admitted_at < d.ends_at and c.state = 'posted'
     left join carried k on k.charge = c.seq
     group by 1, 2, 3, 4, 5, 6`,
    [dates, starts, ends],
  );
}

/** All days of the calendar from the first charge to the last. */
async function daysOfCharges(db: Statements, calendar: Calendar) {
  const days = { dates: [] as string[], starts: [] as number[], ends: [] as number[] };
  const range = await db.row<{ first: bigint | null; last: bigint | null }>(
    "select min(admitted_at) as first, max(admitted_at) as last from charges",
  );
  if (range?.first == null || range.last === null) return days;
  for (let at = Number(range.first); at <= Number(range.last);) {
    const { start, end } = calendar.spanOf("1d", at);
    days.dates.push(calendar.dateOf(at));
    days.starts.push(start);
    days.ends.push(end ?? at + 1);
    at = end ?? at + 1;
  }
  return days;
}
