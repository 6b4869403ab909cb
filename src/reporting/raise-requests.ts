import { keyOfScope, keyOfSubject, namedScope, namedSubject } from "../core/scope.ts";
import { formatUsd } from "../core/money.ts";
import type { Key } from "../core/keys.ts";
import { raiseRequestState, type RaiseRequest } from "../ports/raise-requests.ts";
import { isoTime, isoTimeOrNull } from "../core/time.ts";
import type { NameOf } from "./names.ts";
import type { AdminRaiseRequestJson, RaiseRequestJson } from "./shapes/keys.ts";

/** Returns a raise request in the form for the key that made it. */
export function raiseRequestJson(request: RaiseRequest, nameOf: NameOf, now: number): RaiseRequestJson {
  const { id, budget, subject, amount, why, at, lapsesAt, decidedAt, granted, until } = request;
  return {
    id,
    scope: namedScope(budget.scope, nameOf),
    subject: namedSubject(budget.scope, subject, nameOf),
    period: budget.period,
    amount_usd: formatUsd(amount),
    why,
    state: raiseRequestState(request, now),
    created_at: isoTime(at),
    lapses_at: isoTimeOrNull(lapsesAt),
    decided_at: isoTimeOrNull(decidedAt),
    approved_usd: granted === null ? null : formatUsd(granted),
    approved_until: isoTimeOrNull(until),
  };
}

/** Largest number of `spender_names`. */
const namesMax = 20;

/** Returns a raise request in the form for admins. `spenders`: live keys that may spend the raise. */
export function adminRaiseRequestJson(
  request: RaiseRequest,
  spenders: readonly Pick<Key, "name">[],
  nameOf: NameOf,
  now: number,
): AdminRaiseRequestJson {
  return {
    ...raiseRequestJson(request, nameOf, now),
    key: nameOf(request.key),
    decided_by: request.decidedBy,
    spenders: spenders.length,
    spender_names: spenders.slice(0, namesMax).map(({ name }) => name),
  };
}

/** Returns the ids of the keys that a raise request refers to; null for no key. */
export function keysInRequest({ budget: { scope }, subject, key }: RaiseRequest): (string | null)[] {
  return [key, keyOfScope(scope), keyOfSubject(scope, subject)];
}
