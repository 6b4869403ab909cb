import { subjectOf, weighsOn } from "../../../core/budget.ts";
import type { Calendar } from "../../../ports/calendar.ts";
import type { Connection } from "../connection.ts";
import type { Mended } from "./mend.ts";
import { soundBudgets } from "./window-check.ts";

interface LinkedCharge {
  readonly id: string;
  readonly state: string;
  readonly at: number;
  readonly key: string;
  readonly team: string | null;
}

/**
 * Links a pending charge to exactly the windows that it falls into. Of one that has ended, or is not there, only links from
 * or to nothing go: nobody follows the others any more.
 */
export function mendLinks(db: Connection, calendar: Calendar, seq: number): Mended[] {
  const charge = db.prepare("select id, state, admitted_at at, key, team from charges where seq = ?").get(seq) as LinkedCharge | undefined;
  const before = linksOf(db, seq);
  const isThere = db.prepare("select 1 from windows where seq = ?");
  const wanted = new Set(
    charge === undefined ? [] : charge.state === "pending" ? windowsOf(db, calendar, charge) : before.filter((window) => isThere.get(window) !== undefined),
  );
  const remove = db.prepare("delete from charge_windows where charge = ? and window = ?");
  for (const window of before) if (!wanted.has(window)) remove.run(seq, window);
  const insert = db.prepare("insert into charge_windows (charge, window) values (?, ?) on conflict do nothing");
  for (const window of wanted) insert.run(seq, window);
  const after = linksOf(db, seq);
  const text = (windows: readonly number[]) => (windows.length === 0 ? "no window" : `windows ${windows.join(", ")}`);
  return String(before) === String(after) ? [] : [{ kind: "link", id: charge?.id ?? String(seq), from: text(before), to: text(after) }];
}

function linksOf(db: Connection, charge: number): number[] {
  return db.prepare("select window from charge_windows where charge = ? order by window").pluck().all(charge) as number[];
}

function windowsOf(db: Connection, calendar: Calendar, { at, key, team }: LinkedCharge): number[] {
  const find = db.prepare("select seq from windows where budget = ? and subject = ? and starts_at = ?").pluck();
  return soundBudgets(db)
    .filter(({ scope }) => weighsOn(scope, { key, team }))
    .map(({ seq, scope, period }) => find.get(seq, subjectOf(scope, { key, team }), calendar.spanOf(period, at).start) as number | undefined)
    .filter((window) => window !== undefined);
}
