import type { Calendar } from "../../ports/calendar.ts";
import type { Difference, Verification } from "../../ports/ledger.ts";
import type { Derived } from "./audit/findings.ts";
import { inspect, type Progress } from "./audit/inspect.ts";
import type { Connection } from "./connection.ts";

/** Differences that are listed at most. */
const differencesMax = 1000;

/** See the ledger's port. `onDerived` is told of every derived row that differs, of one several times where it has several differences. */
export function verify(db: Connection, calendar: Calendar, onProgress?: Progress, onDerived?: (derived: Derived) => void): Verification {
  const differences: Difference[] = [];
  let unlisted = 0;
  const charges = inspect(
    db,
    calendar,
    ({ kind, id, expected, found, derived }) => {
      if (derived !== null) onDerived?.(derived);
      if (differences.length < differencesMax) differences.push({ kind, id, expected, found });
      else unlisted++;
    },
    onProgress,
  );
  return { charges, differences, ...(unlisted > 0 && { unlisted }) };
}
