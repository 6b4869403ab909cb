import { tokenClasses } from "../../core/tokens.ts";
import type { WindowBook } from "./budgets.ts";
import type { AdjustCommand } from "./commands.ts";
import type { Connection } from "./connection.ts";
import type { RollupBook } from "./rollups.ts";
import type { ChargeRow } from "./rows.ts";

/**
 * Adds a correction beside a posted charge: a charge of its own, at the correction's time, of the same caller, model,
 * source and tags. It moves money and counts neither a request nor tokens. A repeat of the same correction changes nothing.
 */
export function adjust(
  db: Connection,
  windows: WindowBook,
  rollups: RollupBook,
  [, id, correction]: AdjustCommand,
): "ok" | "no_such_charge" {
  const corrected = db.prepare("select * from charges where id = ? and state = 'posted'").safeIntegers().get(id) as ChargeRow | undefined;
  if (corrected === undefined || corrected.source === null) return "no_such_charge";
  const { key, team, model, source } = corrected;
  const group = corrected.price_group;
  const { at, amount, why } = correction;
  const { changes } = db
    .prepare(
      `insert into charges (id, kind, state, owner, admitted_at, ended_at, key, team, route, model, served_model, price_group,
         stream, cost, formula, source, reason, tags, adjusts)
       values (?, ?, 'posted', 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'adjustment', ?, ?, ?, ?) on conflict (id) do nothing`,
    )
    .run(
      correction.id, corrected.kind, at, at, key, team, corrected.route, model, corrected.served_model, group,
      corrected.stream, amount, source, why, corrected.tags, id,
    );
  if (changes === 0) return "ok";
  windows.move(windows.existing({ key, team }, at), amount, 0n);
  rollups.add({
    at, key, team, model, group, source, requests: 0, unpriced: 0, retries: 0, tokens: tokenClasses.map(() => 0), cost: amount,
    listCost: 0n,
  });
  return "ok";
}
