import { namedScope, namedSubject, parseScope } from "../core/scope.ts";
import type { Key } from "../core/keys.ts";
import { formatUsdOrNull } from "../core/money.ts";
import type {
  RefusalCause,
  RefusalCauses,
  RefusalPage,
  RefusalQuery,
  RefusalRow,
  Refusals,
} from "../ports/refusals.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import { ownName, type NameOf } from "./names.ts";
import type { RefusalCauseJson, RefusalCausesJson, RefusalJson, RefusalListJson } from "./shapes/charges.ts";

function refusalJson(row: RefusalRow, nameOf: NameOf): RefusalJson {
  const { key, model, code, scope, period, subject, needed_usd: needed } = refusalCauseJson(row, nameOf);
  return {
    first_at: isoTime(row.firstAt),
    last_at: isoTime(row.lastAt),
    count: row.count,
    key,
    team: row.team,
    route: row.route,
    model,
    code,
    scope,
    period,
    subject,
    needed_usd: needed,
  };
}

function refusalCauseJson(cause: RefusalCause, nameOf: NameOf): RefusalCauseJson {
  const scope = cause.scope === null ? undefined : parseScope(cause.scope);
  return {
    key: nameOf(cause.key),
    code: cause.code,
    scope: scope === undefined ? cause.scope : namedScope(scope, nameOf),
    period: cause.period,
    subject: scope === undefined || cause.subject === null ? null : namedSubject(scope, cause.subject, nameOf),
    needed_usd: formatUsdOrNull(cause.needed),
    last_at: isoTime(cause.lastAt),
    model: cause.model,
    count: cause.count,
  };
}

export function refusalCausesJson({ causes, total, examinedTo }: RefusalCauses, nameOf: NameOf): RefusalCausesJson {
  return {
    causes: causes.map((cause) => refusalCauseJson(cause, nameOf)),
    total,
    examined_to: isoTimeOrNull(examinedTo),
  };
}

export function refusalsJson({ refusals, next, examinedTo }: RefusalPage, nameOf: NameOf): RefusalListJson {
  return { refusals: refusals.map((row) => refusalJson(row, nameOf)), next, examined_to: isoTimeOrNull(examinedTo) };
}

/**
 * Returns a page of the refusals of one key. If `key` is null, returns the refusals without a known key. Returns
 * undefined for an invalid cursor.
 */
export async function ownRefusals(
  { refusals, key }: { readonly refusals: Pick<Refusals, "list">; readonly key: Key | null },
  query: Omit<RefusalQuery, "key" | "team">,
): Promise<RefusalListJson | undefined> {
  const page = await refusals.list({ ...query, key: key?.id ?? "" });
  return page && refusalsJson(page, ownName(key));
}
