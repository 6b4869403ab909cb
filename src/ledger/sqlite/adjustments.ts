import { correctionEntry } from "../../core/audit.ts";
import { correctionFault } from "../../core/charge.ts";
import { picoUsdMax, type PicoUsd } from "../../core/money.ts";
import { tokenClasses } from "../../core/usage.ts";
import type { AdjustResult } from "../../ports/ledger.ts";
import type { AdjustCommand } from "../commands.ts";
import type { ChargeRow } from "../charge-columns.ts";
import { recordAudit } from "../tables/audit.ts";
import { answerEach } from "./answer.ts";
import type { WindowBook } from "./budgets.ts";
import type { Connection } from "./connection.ts";
import type { Posted, RollupBook } from "./rollups.ts";

/**
 * Adds a correction to a posted charge: a charge of its own, at the charge's time, of the same caller, model,
 * source and tags. It moves money and counts neither a request nor tokens. A repeat of the same correction changes nothing.
 */
export function adjust(
  db: Connection,
  windows: WindowBook,
  rollups: RollupBook,
  [, id, correction]: AdjustCommand,
): AdjustResult {
  const corrected = db.prepare("select * from charges where id = ?").safeIntegers().get(id) as ChargeRow | undefined;
  if (corrected === undefined) return "no_such_charge";
  if (db.prepare("select 1 from charges where id = ?").get(correction.id) !== undefined) return "repeated";
  const { amount, why, by } = correction;
  const before = db.prepare("select sum(cost) from charges where adjusts = ?").pluck().safeIntegers().get(id) as
    | bigint
    | null;
  const fault = correctionFault(corrected, before ?? 0n, amount);
  if (fault !== null) return fault;

  const { key, team, model, source } = corrected;
  const group = corrected.price_group;
  const at = Number(corrected.admitted_at);
  const moved = windows.existing({ key, team, session: corrected.session }, at);
  const posted: Posted = {
    at,
    key,
    team,
    model,
    group,
    source: source ?? "",
    requests: 0,
    unpriced: 0,
    retries: 0,
    tokens: tokenClasses.map(() => 0),
    cost: amount,
    listCost: correction.listAmount ?? 0n,
    inDoubt: 0n,
  };
  const sums = [...moved.map(({ spent }) => spent), ...rollups.costs(posted)];
  if (sums.some((sum) => sum + amount > picoUsdMax - 1n)) return "too_large";
  db.prepare(
    `insert into charges (id, kind, state, owner, admitted_at, ended_at, key, team, route, model, served_model, price_group,
       stream, cost, list_cost, formula, source, reason, tags, session, adjusts, adjusted_by)
     values (?, ?, 'posted', 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'adjustment', ?, ?, ?, ?, ?, ?)`,
  ).run(
    correction.id,
    corrected.kind,
    at,
    correction.at,
    key,
    team,
    corrected.route,
    model,
    corrected.served_model,
    group,
    corrected.stream,
    amount,
    correction.listAmount ?? null,
    source,
    why,
    corrected.tags,
    corrected.session,
    id,
    by,
  );
  windows.move(moved, amount, 0n);
  rollups.add(posted);
  const isKnown = corrected.cost !== null || before !== null;
  answerEach(
    db,
    recordAudit(
      correctionEntry(id, correction, isKnown ? (((corrected.cost ?? 0n) + (before ?? 0n)) as PicoUsd) : null),
    ),
  );
  return "ok";
}
