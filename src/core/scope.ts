import { isRunSession, isTagName, matchesPattern, sessionTag, type Key } from "./keys.ts";

/** Values of a request that a budget can depend on, in the order in which scopes state them. */
export const dimensions = ["team", "key", "label", "model", "user", "tag"] as const;
export type Dimension = (typeof dimensions)[number];

/** Condition on one value of a request. */
export interface Condition {
  readonly dimension: Dimension;
  /** Name of the label or tag; "" for the other dimensions. */
  readonly name: string;
  /** Value that a request must have. For a model it is a pattern. Null for `each-…`: each value has its own windows. */
  readonly value: string | null;
}

/**
 * Requests that a budget limits: those that meet all conditions. The conditions are in canonical order, and no two have
 * the same dimension and name. A scope without conditions limits all requests.
 */
export interface Scope {
  readonly conditions: readonly Condition[];
}

/** Largest number of `each-…` in a scope. */
export const eachMax = 2;

/**
 * Sender of a request, and the known values of the request. Scopes with a condition on an unknown value do not apply.
 * The key is "" for a request without a key (`FAREBOX_AUTH=open`).
 */
export interface Caller {
  readonly key: string;
  readonly team: string | null;
  /** Labels of the key. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** User that the request names; null for none. */
  readonly user?: string | null | undefined;
  readonly tags?: Readonly<Record<string, string>> | undefined;
  /** Catalogue models that may answer the request. */
  readonly models?: readonly string[] | undefined;
}

/** Returns the sender of a key's requests. */
export function callerOf({ id, team, labels }: Pick<Key, "id" | "team" | "labels">): Caller {
  return { key: id, team, labels };
}

export const everyRequest: Scope = { conditions: [] };

export function keyScope(key: string): Scope {
  return { conditions: [{ dimension: "key", name: "", value: key }] };
}

export function teamScope(team: string): Scope {
  return { conditions: [{ dimension: "team", name: "", value: team }] };
}

/** Returns the scope that limits each key separately: all keys, or the keys of a team. */
export function eachKeyScope(team: string | null = null): Scope {
  const each: Condition = { dimension: "key", name: "", value: null };
  return { conditions: team === null ? [each] : [...teamScope(team).conditions, each] };
}

/** Returns the scope of a `farebox run` session. */
export function sessionScope(key: string, session: string): Scope {
  return { conditions: [...keyScope(key).conditions, { dimension: "tag", name: sessionTag, value: session }] };
}

export function appliesTo({ conditions }: Scope, caller: Caller): boolean {
  return conditions.every((condition) => isMet(condition, caller));
}

/**
 * Returns true if a scope may limit a request whose cost is not bounded. `anyModel`: true if a model may answer that
 * the catalogue does not know. The request then meets every condition on models.
 */
export function limitsUnbounded({ conditions }: Scope, caller: Caller, anyModel: boolean): boolean {
  return conditions.every((condition) => (anyModel && condition.dimension === "model") || isMet(condition, caller));
}

/**
 * Returns true if a request of the caller may meet the scope's conditions. Ignores conditions on values that each
 * request states itself: model, user and tags, except the tag of a `farebox run` session.
 */
export function mayApplyTo({ conditions }: Scope, caller: Caller): boolean {
  return conditions.every((condition) => isOfRequest(condition) || isMet(condition, caller));
}

function isOfRequest({ dimension, name, value }: Condition): boolean {
  if (dimension === "tag") return !(name === sessionTag && value !== null && isRunSession(value));
  return dimension === "model" || dimension === "user";
}

function isMet({ dimension, name, value }: Condition, caller: Caller): boolean {
  switch (dimension) {
    case "team":
      return caller.team === value;
    case "key":
      return value === null ? caller.key !== "" : caller.key === value;
    case "label":
      return own(caller.labels, name) === value;
    case "model":
      return caller.models?.some((model) => value === null || matchesPattern(value, model)) === true;
    case "user":
      return value === null ? caller.user !== undefined : caller.user === value;
    case "tag":
      return value === null ? caller.tags !== undefined : own(caller.tags, name) === value;
  }
}

function own(values: Readonly<Record<string, string>> | undefined, name: string): string | undefined {
  return values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;
}

/**
 * Returns the subjects of the windows in which a request of the caller counts. With `each-model`, returns one subject
 * for each model that may answer; otherwise one in total. A subject contains the values of the `each-…` conditions in
 * order, encoded and separated by spaces. A value that the request lacks is "".
 */
export function subjectsOf({ conditions }: Scope, caller: Caller): readonly string[] {
  let subjects: readonly string[] | null = null;
  for (const condition of conditions) {
    if (condition.value !== null) continue;
    const values = eachValue(condition, caller).map(encodeValue);
    subjects = subjects === null ? values : subjects.flatMap((text) => values.map((value) => `${text} ${value}`));
  }
  return subjects ?? noSubject;
}

/** Returns true if a request of the caller counts in the windows of a subject. */
export function isCountedFor(scope: Scope, subject: string, caller: Caller): boolean {
  return appliesTo(scope, caller) && subjectsOf(scope, caller).includes(subject);
}

const noSubject: readonly string[] = [""];

function eachValue({ dimension, name }: Condition, caller: Caller): readonly string[] {
  if (dimension === "key") return [caller.key];
  if (dimension === "model") return caller.models ?? [];
  return [(dimension === "user" ? caller.user : own(caller.tags, name)) ?? ""];
}

/**
 * Returns the conditions that the charges of a window meet. The value "" means that the charges must not have a value.
 */
export function conditionsOf(
  { conditions }: Scope,
  subject: string,
): readonly (Condition & { readonly value: string })[] {
  const values = subject.split(" ").map(decodeValue);
  let next = 0;
  return conditions.map((condition) => ({ ...condition, value: condition.value ?? values[next++] ?? "" }));
}

/** Returns the dimensions of the `each-…` conditions, such as `key` or `tag:session`. */
export function eachOf({ conditions }: Scope): readonly string[] {
  return conditions.filter(({ value }) => value === null).map(({ dimension, name }) => dimensionName(dimension, name));
}

function dimensionName(dimension: Dimension, name: string): string {
  return name === "" ? dimension : `${dimension}:${name}`;
}

/** Returns true if a scope has an `each-…` condition. */
export function hasSubjects({ conditions }: Scope): boolean {
  return conditions.some(({ value }) => value === null);
}

/** Returns true if rollups have all values on which the conditions depend. */
export function isRolledUp({ conditions }: Scope): boolean {
  return conditions.every(({ dimension }) => dimension === "key" || dimension === "team" || dimension === "model");
}

/** Default of FAREBOX_SUBJECTS_MAX. */
export const subjectsMaxDefault = 10_000;

/**
 * Returns true if clients state the subjects of a scope, so that their number is not limited: users, values of a tag,
 * or models. Models that no price file names count too.
 */
export function hasClientSubjects({ conditions }: Scope): boolean {
  return conditions.some(({ dimension, value }) => value === null && dimension !== "key");
}

/** Returns true if a scope limits each key separately, with no other condition than a team. */
export function isEachKey(scope: Scope): boolean {
  return formatScope(eachKeyScope(teamOfScope(scope))) === formatScope(scope);
}

/** Returns true if a scope has a condition on the model that one of these models meets. */
export function limitsModel({ conditions }: Scope, models: readonly string[]): boolean {
  return conditions.some(
    ({ dimension, value }) =>
      dimension === "model" && models.some((model) => value === null || matchesPattern(value, model)),
  );
}

/** Returns the model of a window's subject; null if the scope has no `each-model`. */
export function modelOfSubject(scope: Scope, subject: string): string | null {
  const model = subject.split(" ")[eachOf(scope).indexOf("model")];
  return model === undefined ? null : decodeValue(model);
}

/** Returns true if a scope has a condition on the user or a tag, which clients state. */
export function isByUserOrTag({ conditions }: Scope): boolean {
  return conditions.some(({ dimension }) => dimension === "user" || dimension === "tag");
}

/** Returns the team that a scope names; null if it names none. */
export function teamOfScope(scope: Scope): string | null {
  return valueOf(scope, "team");
}

/**
 * Returns the id of the key that a scope names; null if the scope names no key. In a scope as people write it, this is
 * the key's name instead.
 */
export function keyOfScope(scope: Scope): string | null {
  return valueOf(scope, "key");
}

/** Returns the pattern of the models that a scope names; null if it names none. */
export function modelOfScope(scope: Scope): string | null {
  return valueOf(scope, "model");
}

function valueOf({ conditions }: Scope, of: Dimension): string | null {
  return conditions.find(({ dimension }) => dimension === of)?.value ?? null;
}

/** Returns the scope with another value for the key that it names. */
export function withKey({ conditions }: Scope, key: string): Scope {
  return {
    conditions: conditions.map((condition) =>
      condition.dimension === "key" && condition.value !== null ? { ...condition, value: key } : condition,
    ),
  };
}

/** Returns the scope with an ellipsis for the user that it names, for the log. */
export function withoutUsers({ conditions }: Scope): Scope {
  return {
    conditions: conditions.map((condition) =>
      condition.dimension === "user" && condition.value !== null ? { ...condition, value: "…" } : condition,
    ),
  };
}

/**
 * Returns true if a budget belongs to a `farebox run` session. Such a budget is created and removed with the session.
 */
export function isOfSession(scope: Scope): boolean {
  return scope.conditions.length === 2 && keyOfScope(scope) !== null && sessionOfScope(scope) !== null;
}

/** Returns the id of the `farebox run` session that a scope names; null if it names none. */
export function sessionOfScope({ conditions }: Scope): string | null {
  const named = conditions.find(({ dimension, name }) => dimension === "tag" && name === sessionTag)?.value ?? null;
  return named !== null && isRunSession(named) ? named : null;
}

/** Returns true if each window of a budget limits a single key. */
export function limitsOneKey({ conditions }: Scope): boolean {
  return conditions.some(({ dimension }) => dimension === "key");
}

/**
 * Returns the name under which budgets of a scope are found: the session, user, key or team that the scope names; "" if
 * it names none of these. A request reads only the budgets under the names of its caller (`anchorsOf`). Thousands of
 * budgets for other users therefore do not make it slower.
 */
export function anchorOf(scope: Scope): string {
  const session = sessionOfScope(scope);
  if (session !== null) return `session:${session}`;
  const named = (["user", "key", "team"] as const).find((dimension) => valueOf(scope, dimension) !== null);
  return named === undefined ? "" : `${named}:${valueOf(scope, named)}`;
}

/** Returns the names under which all budgets that apply to a caller are found. */
export function anchorsOf({ key, team, user, tags }: Caller): readonly string[] {
  const session = own(tags, sessionTag);
  return [
    "",
    ...(team === null ? [] : [`team:${team}`]),
    ...(key === "" ? [] : [`key:${key}`]),
    ...(user == null ? [] : [`user:${user}`]),
    ...(session === undefined || !isRunSession(session) ? [] : [`session:${session}`]),
  ];
}

/** Returns the stored form, such as `all`, `key:ID`, `team:NAME each-key` or `key:ID tag:session=run_…`. */
export function formatScope({ conditions }: Scope): string {
  return conditions.length === 0 ? "all" : conditions.map(formatCondition).join(" ");
}

function formatCondition({ dimension, name, value }: Condition): string {
  if (value === null) return `each-${dimensionName(dimension, name)}`;
  const text = encodeValue(value);
  return name === "" ? `${dimension}:${text}` : `${dimension}:${name}=${text}`;
}

/**
 * Returns the scope as users see it: with the key's name instead of its id if the key has a name. Shortens `team:TEAM
 * each-key` to `each-key:TEAM`.
 */
export function namedScope(scope: Scope, nameOf: (keyId: string) => string | null | undefined): string {
  const key = keyOfScope(scope);
  const team = teamOfScope(scope);
  if (team !== null && isEachKey(scope)) return `each-key:${encodeValue(team)}`;
  return formatScope(key === null ? scope : withKey(scope, nameOf(key) ?? key));
}

/** Returns the id of the key that a window's subject names; null if it names none. */
export function keyOfSubject(scope: Scope, subject: string): string | null {
  const key = subject.split(" ")[eachOf(scope).indexOf("key")];
  return key === undefined || key === "" ? null : decodeValue(key);
}

/**
 * Returns a window's subject as users see it, such as `key=alice tag:session=s1` or `no user`. Contains the key's name
 * instead of its id. Returns null for a scope without `each-…`.
 */
export function namedSubject(
  scope: Scope,
  subject: string,
  nameOf: (keyId: string) => string | null | undefined,
): string | null {
  if (!hasSubjects(scope)) return null;
  const values = subject.split(" ");
  return eachOf(scope)
    .map((dimension, at) => {
      const value = values[at] ?? "";
      if (value === "") return `no ${dimension}`;
      const key = dimension === "key" ? nameOf(decodeValue(value)) : undefined;
      return `${dimension}=${key == null ? value : encodeValue(key)}`;
    })
    .join(" ");
}

/**
 * Reads a subject as `namedSubject` writes it. If the scope has only one `each-…`, also reads the value alone. Returns
 * the values; undefined for any other text.
 */
export function readSubject(scope: Scope, text: string): readonly string[] | undefined {
  const asked = eachOf(scope);
  if (asked.length === 1 && /^[^ =]+$/.test(text)) return [decodeValue(text)];
  const values: string[] = [];
  let rest = text.trim();
  for (const dimension of asked) {
    const none = `no ${dimension}`;
    const isNone = rest === none || rest.startsWith(`${none} `);
    if (!isNone && !rest.startsWith(`${dimension}=`)) return undefined;
    const [word = ""] = isNone ? [none] : rest.split(" ");
    values.push(isNone ? "" : decodeValue(word.slice(dimension.length + 1)));
    rest = rest.slice(word.length).trim();
  }
  return rest === "" ? values : undefined;
}

/** Returns the subject with these values of the `each-…` conditions, in the form that `subjectsOf` returns. */
export function subjectOf(values: readonly string[]): string {
  return values.map(encodeValue).join(" ");
}

/** Encodes the characters that separate values. */
export function encodeValue(value: string): string {
  return value.replaceAll("%", "%25").replaceAll(" ", "%20");
}

function decodeValue(text: string): string {
  return text.includes("%") ? text.replaceAll("%20", " ").replaceAll("%25", "%") : text;
}

type ScopeResult =
  | { readonly ok: true; readonly scope: Scope }
  /** `fault`: a clause that follows "scope", such as "must name a team only once". */
  | { readonly ok: false; readonly fault: string };

/**
 * Reads a scope as people write it, with its conditions in any order. `each-key:TEAM` is a short form of
 * `team:TEAM each-key`.
 */
export function readScope(text: string): ScopeResult {
  if (/\p{Cc}/u.test(text)) return { ok: false, fault: "must not contain control characters" };
  const words = text.split(" ").filter((word) => word !== "");
  if (words.length === 1 && words[0] === "all") return { ok: true, scope: everyRequest };
  const conditions: Condition[] = [];
  for (const word of words) {
    const [escape] = /%(?!20|25).{0,2}/u.exec(word) ?? [];
    if (escape !== undefined)
      return {
        ok: false,
        fault: `contains ${JSON.stringify(escape)}; write %20 for a space, %25 for a percent sign, and other characters as they are`,
      };
    const read = readCondition(word);
    if (read === undefined) return { ok: false, fault: `contains ${JSON.stringify(word)}, which is not a condition` };
    conditions.push(...read);
  }
  if (conditions.length === 0) return { ok: false, fault: "must not be empty" };
  conditions.sort(inOrder);
  for (const [index, { dimension, name }] of conditions.entries()) {
    const before = conditions[index - 1];
    const isRepeated = conditions.findIndex((other) => other.dimension === dimension && other.name === name) < index;
    if (before !== undefined && isRepeated)
      return { ok: false, fault: `must state ${dimensionName(dimension, name)} only once` };
  }
  if (conditions.filter(({ value }) => value === null).length > eachMax)
    return { ok: false, fault: `must have at most ${eachMax} conditions that start with "each-"` };
  return { ok: true, scope: { conditions } };
}

/** Parses the output of `formatScope` and scopes as people write them; undefined for any other text. */
export function parseScope(text: string): Scope | undefined {
  const read = readScope(text);
  return read.ok ? read.scope : undefined;
}

const conditionPattern = /^(team|key|label|model|user|tag):(.+)$/;
const eachPattern = /^each-(key|model|user|tag)(?::(.+))?$/;

function readCondition(word: string): readonly Condition[] | undefined {
  const [, each, eachName] = eachPattern.exec(word) ?? [];
  if (each === "key" && eachName !== undefined) return eachKeyScope(decodeValue(eachName)).conditions;
  if (each === "tag") {
    return eachName === undefined || !isTagName(eachName)
      ? undefined
      : [{ dimension: each, name: eachName, value: null }];
  }
  if (each !== undefined)
    return eachName === undefined ? [{ dimension: each as Dimension, name: "", value: null }] : undefined;
  const [, stated, rest = ""] = conditionPattern.exec(word) ?? [];
  if (stated === undefined) return undefined;
  const dimension = stated as Dimension;
  if (dimension !== "label" && dimension !== "tag") return [{ dimension, name: "", value: decodeValue(rest) }];
  const equals = rest.indexOf("=");
  const name = rest.slice(0, Math.max(0, equals));
  const value = decodeValue(rest.slice(equals + 1));
  return isTagName(name) && value !== "" ? [{ dimension, name, value }] : undefined;
}

/** Compares two conditions for the canonical order: stated values before `each-…`, then by dimension and name. */
function inOrder(a: Condition, b: Condition): number {
  return (
    Number(a.value === null) - Number(b.value === null) ||
    dimensions.indexOf(a.dimension) - dimensions.indexOf(b.dimension) ||
    (a.name < b.name ? -1 : Number(a.name > b.name))
  );
}
