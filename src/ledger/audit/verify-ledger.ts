import type { Calendar } from "../../ports/calendar.ts";
import type { Difference, Verification } from "../../ports/ledger.ts";
import type { Dialect } from "../queries/dialects.ts";
import { rowsOf, type Query } from "../queries/query.ts";
import type { Derived, Report } from "./findings.ts";
import { checkCarried, checkPrices, checkTasks } from "./charge-check.ts";
import { ChargePass } from "./charge-pass.ts";
import { readBudgetTexts, WindowCheck } from "./window-check.ts";

/** Largest number of differences that a verification lists. */
const differencesMax = 1000;

export interface VerifyOptions {
  readonly calendar: Calendar;
  readonly onProgress?: Progress | undefined;
  /** Receives the derived row of each difference that can be repaired. A row may be reported several times. */
  readonly onDerived?: ((derived: Derived) => void) | undefined;
}

/** Implements `LedgerMaintenance.verify`. `checkMore` checks tables that only this kind of database has. */
export function* verifyLedger(
  dialect: Dialect,
  { calendar, onProgress, onDerived }: VerifyOptions,
  checkMore?: (report: Report) => Query<void>,
): Query<Verification> {
  const differences: Difference[] = [];
  let unlisted = 0;
  const report: Report = ({ kind, id, expected, found, derived }) => {
    if (derived !== null) onDerived?.(derived);
    if (differences.length < differencesMax) differences.push({ kind, id, expected, found });
    else unlisted++;
  };
  const charges = yield* compareAll(dialect, calendar, report, onProgress);
  if (checkMore !== undefined) yield* checkMore(report);
  return { charges, differences, ...(unlisted > 0 && { unlisted }) };
}

/** Receives the share of charges checked, from 0 to 1. */
export type Progress = (share: number) => void;

/**
 * Recomputes each charge from its inputs and each sum from its charges, checks prices and tasks, and reports
 * differences. Returns the number of charges. Reads one snapshot, uses bounded memory and does not block writers.
 */
function* compareAll(dialect: Dialect, calendar: Calendar, report: Report, onProgress?: Progress): Query<number> {
  yield* checkPrices(report);
  yield* checkCarried(report);
  yield* checkTasks(report);
  const total = onProgress === undefined ? 0 : yield* numberOf("select count(*) as number from charges");
  const quartersFrom = yield* numberOf("select quarters_from as number from meta");
  const windows = new WindowCheck(calendar, yield* readBudgetTexts(), report);
  return yield* new ChargePass({ dialect, calendar, report, windows, quartersFrom }).run((done) =>
    onProgress?.(done / total),
  );
}

function* numberOf(sql: string): Query<number> {
  const [row] = yield* rowsOf<{ number: bigint }>({ sql, values: [] });
  return Number(row?.number ?? 0n);
}
