import type { Formula, Source } from "../../core/charge.ts";
import type { PicoUsd } from "../../core/money.ts";
import { tokenClasses, type TokenClass } from "../../core/tokens.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { ReportQuery } from "../../ports/ledger.ts";
import type { PageEnd, PostingPage } from "../long-reads.ts";
import { tokensOf } from "../rows/charges.ts";
import type { Connection } from "./connection.ts";
import { chargeCounts, chargeGroups, spanOfReport, valueOf, type GroupRow } from "./report.ts";
import { rollupCounts } from "./rollups.ts";

/** Charges of one page: some milliseconds of reading, so that other reads get their turn. */
const pageCharges = 2_000;

type PostingRow = GroupRow & Readonly<Record<TokenClass | (typeof rollupCounts)[number], bigint>> & {
  readonly seq: bigint;
  readonly admitted_at: bigint;
  readonly asked_model: string;
  readonly formula: Formula;
  readonly source: Source;
  readonly cost: PicoUsd | null;
  readonly list_cost: PicoUsd | null;
};

/** The posted charges of a report's span, oldest first, a page of them. */
export function readPostings(db: Connection, calendar: Calendar, query: ReportQuery, after: PageEnd | null): PostingPage {
  const { since, until } = spanOfReport(db, calendar, query);
  const { groups, values } = chargeGroups(db, calendar, query.by);
  const from = after ?? { at: since, seq: 0 };
  const rows = db
    .prepare(
      `select ${groups.join(", ")}, seq, admitted_at, model as asked_model, formula, cost, list_cost, ${tokenClasses.join(", ")},
         ${rollupCounts.map((name) => `${chargeCounts[name]} ${name}`).join(", ")}
       from charges left join carried on carried.charge = charges.seq
       where state = 'posted' and admitted_at >= ? and admitted_at < ? and (admitted_at > ? or seq > ?)
       order by admitted_at, seq limit ${pageCharges}`,
    )
    .safeIntegers()
    .all(...values, from.at, until, from.at, from.seq) as PostingRow[];
  const postings = rows.map((row) => ({
    dimensions: query.by.map((dimension, index) => valueOf(dimension, index, row, calendar)),
    requests: Number(row.requests),
    unpriced: Number(row.unpriced),
    retries: Number(row.retries),
    at: Number(row.admitted_at),
    model: row.asked_model,
    formula: row.formula,
    source: row.source,
    tokens: tokensOf(row),
    cost: row.cost,
    listCost: row.list_cost,
  }));
  const last = rows.length < pageCharges ? undefined : rows.at(-1);
  return { postings, end: last === undefined ? null : { at: Number(last.admitted_at), seq: Number(last.seq) } };
}
