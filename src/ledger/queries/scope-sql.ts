import type { Dialect } from "./dialects.ts";

/*
 * SQL for stored scopes (`formatScope`) and subjects. Conditions are separated by spaces, and values contain no spaces.
 * The SQL therefore finds a condition by a space and the text after it.
 */

type Words = Pick<Dialect, "firstWord" | "position">;

const has = (start: string) => `' ' || scope like '% ${start}%'`;

/** SQL condition for scopes with subjects. */
export const isEachScope = has("each-");
/** SQL condition for scopes whose subjects begin with the id of a key. */
export const hasEachKey = "' ' || scope || ' ' like '% each-key %'";
/** SQL condition for scopes that name a key. */
export const namesKey = has("key:");
/** SQL condition for scopes that name a label of keys. */
export const namesLabel = has("label:");
/** SQL condition for scopes that name a user. */
export const namesUser = has("user:");
/** SQL condition for scopes with a condition on the model. */
export const namesModel = `(${has("model:")} or ${has("each-model")})`;
/** SQL condition for scopes that have a window for each model. */
export const hasEachModel = "' ' || scope || ' ' like '% each-model %'";
/** SQL condition for scopes on users or tags. Agrees with `isByUserOrTag`. */
export const isByUserOrTagSql = `(${["user:", "tag:", "each-user", "each-tag:"].map(has).join(" or ")})`;
/** SQL condition for scopes that the rollups cannot sum. Agrees with `isRolledUp`, which is false for these scopes. */
export const isNotRolledUpSql = `(${namesLabel} or ${isByUserOrTagSql})`;
/** SQL condition for budgets of `farebox run` sessions. */
export const isOfSessionSql = "scope like 'key:% tag:session=run_%'";

/** Returns true for scopes with subjects. */
export function isEach(scope: string): boolean {
  return /(?:^| )each-/.test(scope);
}

/**
 * Returns the SQL expression for the id of the key that a window limits. The id is null if the window does not limit a
 * single key.
 */
export const keyOfWindow = (words: Words) =>
  `case when ${hasEachKey} then ${words.firstWord("subject")} when ${namesKey} then ${keyOfScope(words)} end`;

/** Returns the SQL expression for the team in a scope that begins with `team:`. */
export const teamOfScope = ({ firstWord }: Words) => firstWord("substr(scope, 6)");

const keyAt = ({ position }: Words) => position("' key:'", "' ' || scope");
const keyOfScope = (words: Words) => words.firstWord(`substr(scope, ${keyAt(words)} + 4)`);

/** Returns the SQL expression for a budget's scope in the format of `namedScope`. */
export const scopeName = (words: Words) =>
  `case when ${namesKey} then coalesce((
      select substr(scope, 1, ${keyAt(words)} + 3) || keys.name || substr(scope, ${keyAt(words)} + 4 + length(keys.id)) from keys
      where keys.id = ${keyOfScope(words)}), scope)
    when scope = 'team:' || ${teamOfScope(words)} || ' each-key' then 'each-key:' || ${teamOfScope(words)} else scope end`;

/**
 * SQL expression for a subject as a search finds it: decoded, and with the key's name instead of its id. `keys` is the
 * row of the window's key.
 */
export const subjectName =
  "replace(replace(coalesce(keys.name || substr(subject, length(keys.id) + 1), subject), '%20', ' '), '%25', '%')";

/** SQL that selects the scopes of all budgets on users. It may also select a few other scopes. */
export const userScopesSql = "select scope from budgets where scope like '%user%' order by seq";
