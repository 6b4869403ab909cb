import type { Source } from "../../core/charge.ts";
import type { Formula } from "../../core/cost.ts";
import type { PicoUsd } from "../../core/money.ts";
import { parseRuns } from "../../core/runs.ts";
import { tokenClasses, type TokenClass } from "../../core/usage.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { ReportQuery, TimeSpan } from "../../ports/ledger.ts";
import type { PageEnd, PostedChargePage } from "./interfaces.ts";
import { rollupCounts } from "../rollups.ts";
import { billingOf, tokensOf } from "../rows/charges.ts";
import type { ChargeRow } from "../charge-columns.ts";
import type { Dialect } from "./dialects.ts";
import { rowsOf, type Query, type Statement } from "./query.ts";
import { chargeCounts, chargeGroups, countsOf, groupOf, reportSpan, type GroupRow } from "./report.ts";

/** Number of charges in a page. A page takes a few milliseconds, so other queries do not wait long. */
const pageCharges = 2_000;

type PostedChargeRow = GroupRow &
  Readonly<Record<TokenClass | (typeof rollupCounts)[number], bigint>> & {
    readonly seq: bigint;
    readonly admitted_at: bigint;
    readonly asked_model: string;
    readonly formula: Formula;
    readonly source: Source;
    readonly cost: PicoUsd | null;
    readonly list_cost: PicoUsd | null;
    readonly in_doubt: bigint;
  } & Pick<ChargeRow, "service_tier" | "tool_calls" | "runs">;

/** Returns a page of the posted charges in a report's span, oldest first. `after`: end of the previous page. */
export function* readPostedCharges(
  dialect: Dialect,
  calendar: Calendar,
  query: ReportQuery,
  after: PageEnd | null,
): Query<PostedChargePage> {
  const span = yield* reportSpan(calendar, query);
  const rows = yield* rowsOf<PostedChargeRow>(statementOf(dialect, query, span, after));
  const charges = rows.map((row) => ({
    ...groupOf(calendar, query.by, row),
    ...countsOf(row),
    at: Number(row.admitted_at),
    model: row.asked_model,
    formula: row.formula,
    source: row.source,
    tokens: tokensOf(row),
    cost: row.cost,
    listCost: row.list_cost,
    inDoubt: row.in_doubt,
    billing: billingOf(row),
    runs: parseRuns(row.runs),
  }));
  const last = rows.length < pageCharges ? undefined : rows.at(-1);
  return { charges, end: last === undefined ? null : { at: Number(last.admitted_at), seq: Number(last.seq) } };
}

function statementOf(
  dialect: Dialect,
  { by }: ReportQuery,
  { since, until }: TimeSpan,
  after: PageEnd | null,
): Statement {
  const { groups, values } = chargeGroups(dialect, by);
  const from = after ?? { at: since, seq: 0 };
  return {
    sql: `select ${groups.join(", ")}, charges.seq, admitted_at, model as asked_model, formula, cost, list_cost, in_doubt, service_tier, tool_calls, runs, ${tokenClasses.join(", ")},
        ${rollupCounts.map((name) => `${chargeCounts[name]} as ${name}`).join(", ")}
      from charges left join carried on carried.charge = charges.seq
      where state = 'posted' and admitted_at >= ? and admitted_at < ? and (admitted_at > ? or charges.seq > ?)
      order by admitted_at, charges.seq limit ${pageCharges}`,
    values: [...values, from.at, until, from.at, from.seq],
  };
}
