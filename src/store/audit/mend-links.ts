import { subjectOf, appliesTo } from "../../core/budget.ts";
import type { Calendar } from "../../ports/calendar.ts";
import type { Dialect } from "../reading/dialects.ts";
import { rowOf, rowsOf, type Reading } from "../reading/reading.ts";
import type { Mended } from "./mend.ts";
import { readBudgetTexts, soundBudgets } from "./window-check.ts";

interface LinkedCharge {
  readonly id: string;
  readonly state: string;
  readonly at: bigint;
  readonly key: string;
  readonly team: string | null;
  readonly session: string | null;
}

/**
 * Links a pending charge to exactly the windows that it falls into. Of one that has ended, or is not there, only links from
 * or to nothing go: nobody follows the others any more.
 */
export function* mendLinks(dialect: Dialect, calendar: Calendar, seq: number): Reading<Mended[]> {
  const charge = yield* rowOf<LinkedCharge>({
    sql: "select id, state, admitted_at as at, key, team, session from charges where seq = ?",
    values: [seq],
  });
  const before = yield* linksOf(dialect, seq);
  const wanted =
    charge === undefined
      ? []
      : charge.state === "pending"
        ? yield* windowsOf(calendar, charge)
        : yield* existing(before);
  for (const { sql, values } of dialect.setLinks(seq, wanted)) yield { sql, values };
  const after = yield* linksOf(dialect, seq);
  const text = (windows: readonly number[]) => (windows.length === 0 ? "no window" : `windows ${windows.join(", ")}`);
  return String(before) === String(after)
    ? []
    : [{ kind: "link", id: charge?.id ?? String(seq), from: text(before), to: text(after) }];
}

function* linksOf(dialect: Dialect, charge: number): Reading<number[]> {
  return (yield* rowsOf<{ win: bigint }>(dialect.links(charge))).map(({ win }) => Number(win));
}

function* existing(windows: readonly number[]): Reading<number[]> {
  const found: number[] = [];
  for (const window of windows) {
    if ((yield* rowOf<object>({ sql: "select 1 from windows where seq = ?", values: [window] })) !== undefined)
      found.push(window);
  }
  return found;
}

function* windowsOf(calendar: Calendar, { at, ...caller }: LinkedCharge): Reading<number[]> {
  const windows: number[] = [];
  for (const { seq, scope, period } of soundBudgets(yield* readBudgetTexts())) {
    if (!appliesTo(scope, caller)) continue;
    const row = yield* rowOf<{ seq: bigint }>({
      sql: "select seq from windows where budget = ? and subject = ? and starts_at = ?",
      values: [seq, subjectOf(scope, caller), calendar.spanOf(period, Number(at)).start],
    });
    if (row !== undefined) windows.push(Number(row.seq));
  }
  return windows.sort((a, b) => a - b);
}
