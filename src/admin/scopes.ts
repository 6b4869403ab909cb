import {
  isByUserOrTag,
  isOfSession,
  limitsOneKey,
  readScope,
  teamOfScope,
  type Condition,
  type Scope,
} from "../core/scope.ts";
import { nearest } from "../core/fault.ts";
import { isTagValue, modelPattern, namePattern, tagValueCharsMax, userPattern, type UserMode } from "../core/keys.ts";
import { isHashedUser, plainUser, userAsStored, type StoredUser } from "../wire/headers.ts";
import { failure, type Failure } from "./result.ts";

/** Forms of a scope, for help and messages. */
export const scopeForms =
  "all, or conditions separated by spaces: key:NAME, team:NAME, label:NAME=VALUE, model:PATTERN, user:NAME, tag:NAME=VALUE, each-key, each-model, each-user, each-tag:NAME";

export type BudgetScopeResult = { readonly ok: true; readonly scope: Scope } | Failure;

/** Reads the scope of a budget as people write it. */
export function readBudgetScope(text: string): BudgetScopeResult {
  const read = readScope(text);
  if (!read.ok) return wrong(text, `${read.fault}${scopeHint(text)}`);
  const { scope } = read;
  if (isOfSession(scope))
    return failure("invalid", "farebox run --budget sets the budget of a session, which is removed after the session");
  const fault = scope.conditions.map(valueFault).find((each) => each !== null);
  if (fault !== undefined) return wrong(text, fault);
  return read;
}

function wrong(text: string, fault: string): Failure {
  return failure("invalid", `scope ${JSON.stringify(text)} ${fault}`);
}

function valueFault({ dimension, value }: Condition): string | null {
  if (value === null) return null;
  if (dimension === "key") return null;
  if (dimension === "team")
    return namePattern.test(value) ? null : `contains ${JSON.stringify(value)}, which is not a valid team name`;
  if (dimension === "model")
    return modelPattern.test(value)
      ? null
      : `contains ${JSON.stringify(value)}, which is not a model name or a pattern such as gpt-4o*`;
  if (dimension === "user") return userPattern.test(value) ? null : "must name a user with at most 128 characters";
  return isTagValue(value)
    ? null
    : `must name a ${dimension} with a value of at most ${tagValueCharsMax} characters, without commas or spaces at its ends`;
}

/**
 * Suggests a condition for the first wrong word of a scope: a key or a team for "alice", `key:alice` for "keys:alice".
 * Returns "" if no word is wrong.
 */
function scopeHint(text: string): string {
  for (const word of text.split(" ")) {
    if (word === "all") return "; all must be the only word of a scope";
    if (word === "" || readScope(word).ok) continue;
    const [near] = nearest(word, ["all", "each-key", "each-model", "each-user"]);
    const [, kind = "", name = ""] = /^([^:]*):(.+)$/.exec(word) ?? [];
    const [nearKind] = nearest(kind, ["key", "team", "label", "model", "user", "tag", "each-key", "each-tag"]);
    if (near !== undefined) return `; did you mean ${near}?`;
    if (nearKind !== undefined && nearKind !== kind) return `; did you mean ${nearKind}:${name}?`;
    if (namePattern.test(word)) return `; did you mean key:${word} or team:${word}?`;
    return `; write ${scopeForms}`;
  }
  return "";
}

/** Returns the scope with its users in their stored form, as charges contain them. */
export function scopeAsStored({ conditions }: Scope, stored: StoredUser | null = plainUser): Scope {
  return {
    conditions: conditions.map((condition) =>
      condition.dimension === "user" && condition.value !== null
        ? { ...condition, value: userAsStored(condition.value, stored) }
        : condition,
    ),
  };
}

/** Returns the fault of a scope that limits users while users are not stored; otherwise null. */
export function usersFault({ conditions }: Scope, stored: StoredUser | null = plainUser): string | null {
  return stored === null && conditions.some(({ dimension }) => dimension === "user")
    ? "a budget on users has no effect, because FAREBOX_USERS is off; set it to plain or hash"
    : null;
}

/** Returns the scopes whose budgets have no effect, because they limit users in a form that charges do not contain. */
export function unboundUserScopes(scopes: readonly Scope[], mode: UserMode): readonly Scope[] {
  return scopes.filter(({ conditions }) =>
    conditions.some(
      ({ dimension, value }) =>
        dimension === "user" && (mode === "off" || (value !== null && isHashedUser(value) !== (mode === "hash"))),
    ),
  );
}

/**
 * Returns the fault of a hard budget on users or tags that any key could use up, because clients state users and tags
 * themselves. Returns null if there is no such fault.
 */
export function sharedFault(
  scope: Scope,
  { mode, shared }: { readonly mode: "hard" | "soft"; readonly shared: boolean },
): string | null {
  if (mode === "soft" || shared || !isByUserOrTag(scope) || limitsOneKey(scope) || teamOfScope(scope) !== null)
    return null;
  return "any key could use up this hard budget, because clients choose users and tags; add key:NAME, team:NAME or each-key to the scope, or allow it with --shared (in JSON and YAML: shared: true)";
}
