import { pairsText } from "./names.ts";
import { csvHeader, csvRows, fieldColumns, type CsvColumn } from "./csv.ts";
import { chargeColumns } from "./export.ts";
import type { ChargeListJson, RefusalJson, RefusalListJson } from "./shapes/charges.ts";
import type { AuditEntryJson, AuditListJson } from "./shapes/health.ts";
import type { AdminJson, AdminListJson } from "./shapes/keys.ts";
import type {
  KeyListJson,
  ListedKeyJson,
  ListedModelJson,
  ListedTeamJson,
  ModelListJson,
  RankedBudgetJson,
  RankedBudgetListJson,
  TeamListJson,
} from "./shapes/lists.ts";

/** Export of a list as CSV: the name of its file, its header line, and a function that formats a page as lines. */
export interface CsvList<Page> {
  readonly name: string;
  readonly header: string;
  readonly lines: (page: Page) => { readonly text: string; readonly count: number };
}

function csvList<Page, Row>(
  name: string,
  rowsOf: (page: Page) => readonly Row[],
  columns: readonly CsvColumn<Row>[],
): CsvList<Page> {
  const lines = (page: Page) => {
    const rows = rowsOf(page);
    return { text: csvRows(columns, rows), count: rows.length };
  };
  return { name, header: csvHeader(columns), lines };
}

const usageColumns: readonly CsvColumn<Pick<ListedKeyJson, "usage">>[] = [
  ["spent_usd", ({ usage }) => usage.spent_usd],
  ["requests", ({ usage }) => usage.requests],
  ["refused_today", ({ usage }) => usage.refused_today],
  ["last_used_at", ({ usage }) => usage.last_used_at],
];

const fullestColumns: readonly CsvColumn<Pick<ListedKeyJson, "fullest">>[] = [
  ["fullest_scope", ({ fullest }) => fullest?.scope ?? null],
  ["fullest_period", ({ fullest }) => fullest?.period ?? null],
  ["fullest_limit_usd", ({ fullest }) => fullest?.limit_usd ?? null],
  ["fullest_used_percent", ({ fullest }) => fullest?.used_percent ?? null],
  ["fullest_refusing", ({ fullest }) => fullest?.refusing ?? null],
];

const limitColumns: readonly CsvColumn<Pick<ListedKeyJson, "models" | "limits" | "output_cap" | "hosted_tools">>[] = [
  ["models", ({ models }) => (models === null ? null : models.join(" "))],
  ["rpm", ({ limits }) => limits.rpm],
  ["tpm", ({ limits }) => limits.tpm],
  ["parallel", ({ limits }) => limits.parallel],
  ["output_cap", ({ output_cap }) => output_cap],
  ["hosted_tools", ({ hosted_tools }) => hosted_tools],
];

const ofKey = fieldColumns<ListedKeyJson>();
export const keysCsv = csvList("keys", ({ keys }: KeyListJson) => keys, [
  ["key", ({ name }) => name],
  ...ofKey("id", "state", "team"),
  ...usageColumns,
  ...fullestColumns,
  ...limitColumns,
  ["labels", ({ labels }) => pairsText(labels)],
  ["tags", ({ tags }) => pairsText(tags)],
  ...ofKey("user"),
  ["requires", ({ requires }) => requires.join(" ") || null],
  ...ofKey("created_at", "expires_at", "revoked_at", "suspended_at"),
]);

const ofTeam = fieldColumns<ListedTeamJson>();
export const teamsCsv = csvList("teams", ({ teams }: TeamListJson) => teams, [
  ["team", ({ name }) => name],
  ...ofTeam("live_keys"),
  ...usageColumns,
  ...fullestColumns,
  ...limitColumns,
  ...ofTeam("created_at"),
]);

export const modelsCsv = csvList("models", ({ models }: ModelListJson) => models, [
  ...fieldColumns<ListedModelJson>()("model", "group", "priced"),
  ...usageColumns,
]);

const ofBudget = fieldColumns<RankedBudgetJson>();
export const budgetsCsv = csvList("budgets", ({ budgets }: RankedBudgetListJson) => budgets, [
  ...ofBudget("scope", "period", "mode", "limit_usd", "warn_percent"),
  ...ofBudget("windows", "refusing", "used_percent", "spent_usd", "held_usd", "resets_at"),
]);

export const chargesCsv = csvList("charges", ({ charges }: ChargeListJson) => charges, chargeColumns);

const ofRefusal = fieldColumns<RefusalJson>();
export const refusalsCsv = csvList("refusals", ({ refusals }: RefusalListJson) => refusals, [
  ...ofRefusal("first_at", "last_at", "count", "key", "team", "route", "model"),
  ...ofRefusal("code", "scope", "period", "subject", "needed_usd"),
]);

export const auditCsv = csvList("audit", ({ entries }: AuditListJson) => entries, [
  ...fieldColumns<AuditEntryJson>()("id", "time", "by", "action", "object"),
  ["before", ({ before }) => before && JSON.stringify(before)],
  ["after", ({ after }) => after && JSON.stringify(after)],
]);

export const adminsCsv = csvList("admins", ({ admins }: AdminListJson) => admins, [
  ["admin", ({ name }) => name],
  ...fieldColumns<AdminJson>()("id", "role", "state", "created_at", "expires_at", "revoked_at"),
]);
