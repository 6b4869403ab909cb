import type { Scope, Span } from "../../core/budget.ts";
import type { PicoUsd } from "../../core/money.ts";
import { endOfTime } from "../rows/budgets.ts";
import type { Statements } from "./connection.ts";

/** Scope and span whose charges are summed. `subject` selects one member of an `eachKey` scope. */
export interface Summed {
  readonly scope: Scope;
  readonly subject: string;
  readonly span: Span;
}

/** Returns the sums of charges by scope and span, in the given order. Runs one statement per kind of scope. */
export async function sumCharges(
  db: Statements,
  wanted: readonly Summed[],
): Promise<readonly { readonly spent: PicoUsd; readonly held: PicoUsd }[]> {
  const sums: { spent: PicoUsd; held: PicoUsd }[] = [];
  const asked = wanted.map((each, place) => ({ place, span: each.span, ...membersOf(each) }));
  for (const [condition, group] of Map.groupBy(asked, conditionOf)) {
    // A lateral join, so that the planner uses an index for each, whatever their number.
    const rows = await db.rows<{ place: number; spent: PicoUsd; held: PicoUsd }>(
      `select place, spent, held
       from unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])
         as wanted (place, its_key, its_team, since, until, its_session)
       cross join lateral (
         select coalesce(sum(cost), 0)::bigint as spent, coalesce(sum(hold) filter (where state = 'pending'), 0)::bigint as held
         from charges where ${condition} and admitted_at >= since and admitted_at < until
       ) sums`,
      [
        group.map(({ place }) => place),
        group.map(({ key }) => key),
        group.map(({ team }) => team),
        group.map(({ span }) => span.start),
        group.map(({ span }) => span.end ?? endOfTime),
        group.map(({ session }) => session),
      ],
    );
    for (const { place, spent, held } of rows) sums[place] = { spent, held };
  }
  return sums;
}

/** Null if it does not matter. */
interface Members {
  readonly key: string | null;
  readonly team: string | null;
  readonly session: string | null;
}

function membersOf({ scope, subject }: Summed): Members {
  switch (scope.kind) {
    case "all":
      return { key: null, team: null, session: null };
    case "team":
      return { key: null, team: scope.team, session: null };
    case "key":
      return { key: scope.key, team: null, session: scope.session ?? null };
    case "eachKey":
      return { key: subject, team: scope.team, session: null };
  }
}

function conditionOf({ key, team, session }: Members): string {
  const conditions = [
    ...(key === null ? [] : ["key = its_key"]),
    ...(team === null ? [] : ["team = its_team"]),
    ...(session === null ? [] : ["session = its_session"]),
  ];
  return conditions.join(" and ") || "true";
}
