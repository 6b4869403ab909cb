import type { Calendar } from "../../ports/calendar.ts";
import type { Dialect } from "../queries/dialects.ts";
import { rowsOf, type Query } from "../queries/query.ts";
import { checkCarried } from "./carried-check.ts";
import { checkPrices, checkTasks } from "./charge-check.ts";
import type { Report } from "./findings.ts";
import { Pass } from "./pass.ts";
import { readBudgetTexts, WindowCheck } from "./window-check.ts";

/** Told the share of the charges that is done, 0 to 1. */
export type Progress = (share: number) => void;

/**
 * Compares every stored sum and amount with what its charges say, from one snapshot and in bounded memory; answers how many
 * charges there are. Nothing waits while it runs.
 */
export function* inspect(dialect: Dialect, calendar: Calendar, report: Report, onProgress?: Progress): Query<number> {
  yield* checkPrices(report);
  yield* checkCarried(report);
  yield* checkTasks(report);
  const total = onProgress === undefined ? 0 : yield* numberOf("select count(*) as number from charges");
  const quartersFrom = yield* numberOf("select quarters_from as number from meta");
  const windows = new WindowCheck(calendar, yield* readBudgetTexts(), report);
  return yield* new Pass({ dialect, calendar, report, windows, quartersFrom }).run((done) =>
    onProgress?.(done / total),
  );
}

function* numberOf(sql: string): Query<number> {
  const [row] = yield* rowsOf<{ number: bigint }>({ sql, values: [] });
  return Number(row?.number ?? 0n);
}
