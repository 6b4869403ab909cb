import type { Calendar } from "../../ports/calendar.ts";
import type { Difference, Verification } from "../../ports/ledger.ts";
import type { Dialect } from "../queries/dialects.ts";
import type { Query } from "../queries/query.ts";
import type { Derived, Report } from "./findings.ts";
import { inspect, type Progress } from "./inspect.ts";

/** Differences that are listed at most. */
const differencesMax = 1000;

export interface VerifyOptions {
  readonly calendar: Calendar;
  readonly onProgress?: Progress | undefined;
  /** Told of every derived row that differs, of one several times where it has several differences. */
  readonly onDerived?: ((derived: Derived) => void) | undefined;
}

/** See the ledger's port. `checkMore` is what only this database can have wrong. */
export function* verifying(
  dialect: Dialect,
  { calendar, onProgress, onDerived }: VerifyOptions,
  checkMore: (report: Report) => Query<void>,
): Query<Verification> {
  const differences: Difference[] = [];
  let unlisted = 0;
  const report: Report = ({ kind, id, expected, found, derived }) => {
    if (derived !== null) onDerived?.(derived);
    if (differences.length < differencesMax) differences.push({ kind, id, expected, found });
    else unlisted++;
  };
  const charges = yield* inspect(dialect, calendar, report, onProgress);
  yield* checkMore(report);
  return { charges, differences, ...(unlisted > 0 && { unlisted }) };
}
