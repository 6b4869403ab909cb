/** Parts of a scope such as "team:research each-user". */
interface Scope {
  /** Conditions with a value, such as `["key", "alice"]` or `["tag", "feature=search"]`. */
  readonly stated: readonly (readonly [dimension: string, value: string])[];
  /** Dimensions with separate windows for each value, such as `key` or `tag:session`. */
  readonly each: readonly string[];
}

function partsOf(scope: string): Scope {
  const words = scope === "all" ? [] : scope.split(" ").flatMap(inFull);
  const stated = words.filter((word) => !word.startsWith("each-"));
  return {
    stated: stated.map((word) => {
      const colon = word.indexOf(":");
      return [word.slice(0, colon), plain(word.slice(colon + 1))] as const;
    }),
    each: words.filter((word) => word.startsWith("each-")).map((word) => word.slice("each-".length)),
  };
}

/** Expands `each-key:TEAM` to `team:TEAM` and `each-key`. Returns any other word unchanged. */
function inFull(word: string): readonly string[] {
  return word.startsWith("each-key:") ? [`team:${word.slice("each-key:".length)}`, "each-key"] : [word];
}

function plain(value: string): string {
  return value.replaceAll("%20", " ").replaceAll("%25", "%");
}

const dimensionNames: Readonly<Record<string, string>> = {
  team: "team",
  key: "key",
  label: "keys with label",
  user: "user",
};

function statedName([dimension, value]: readonly [string, string]): string {
  if (dimension === "model") return `${value.includes("*") ? "models" : "model"} ${value}`;
  if (dimension === "tag")
    return value.startsWith("session=run_") ? `session ${value.slice("session=".length)}` : `tag ${value}`;
  return `${dimensionNames[dimension] ?? dimension} ${value}`;
}

/** Describes a scope within a sentence, such as "key alice, models gpt-5*" or "each user of team research". */
export function scopeWords(scope: string): string {
  const names = partsOf(scope).stated.map(statedName).join(", ");
  if (!isForEach(scope)) return names === "" ? "all requests" : names;
  return names === "" ? eachWords(scope) : `${eachWords(scope)} of ${names}`;
}

/** Describes the dimensions with separate windows, such as "each key" or "each key and each tag session". */
export function eachWords(scope: string): string {
  return partsOf(scope)
    .each.map((name) => `each ${name.replace(":", " ")}`)
    .join(" and ");
}

/** Returns true if a budget with this scope has separate windows, for example for each key. */
export function isForEach(scope: string): boolean {
  return partsOf(scope).each.length > 0;
}

/**
 * Returns the noun for `count` windows of a budget, such as "key", "keys" or "users". The noun is "window" unless the
 * scope has exactly one each-… part.
 */
export function subjectNames(scope: string, count: number): string {
  const { each } = partsOf(scope);
  const name = each.length === 1 ? (each[0]?.split(":").at(-1) ?? "") : "window";
  return count === 1 ? name : `${name}s`;
}

/** Returns true for the scope of a `farebox run` session's budget. Only the session creates and removes that budget. */
export function isOfSession(scope: string): boolean {
  const { stated } = partsOf(scope);
  return stated.length === 2 && stated[0]?.[0] === "key" && stated[1]?.[1].startsWith("session=run_") === true;
}

/** Returns the page of the key in a scope, or else of its team. Returns null if the scope names neither. */
export function pageOfScope(scope: string): readonly [kind: "key" | "team", name: string] | null {
  const { stated } = partsOf(scope);
  const found = stated.find(([dimension]) => dimension === "key") ?? stated.find(([dimension]) => dimension === "team");
  return found === undefined ? null : [found[0] as "key" | "team", found[1]];
}

/** Window of a budget. The fields are null if something other than a budget refused a request. */
interface BudgetWindow {
  readonly scope: string | null;
  readonly period: string | null;
  readonly subject: string | null;
}

/** Returns a function that returns true for the same window of the same budget. */
export function isWindowOf({ scope, period, subject }: BudgetWindow): (other: BudgetWindow) => boolean {
  return (other) => other.scope === scope && other.period === period && other.subject === subject;
}

/** Scope as the user stated it in a form. An empty text is no condition. */
interface StatedScope {
  /** `all`, `key`, `team` or `each-key`. */
  readonly kind: string;
  /** Name of the key, or of the team. */
  readonly name: string;
  /** Further conditions: values by dimension. Values of `label` and `tag` have the form `name=value`. */
  readonly more: Readonly<Record<string, string>>;
  /** `model`, `user`, `tag:NAME` or "". */
  readonly each: string;
}

/** Returns the text of the scope that the user stated in a form. */
export function scopeOf({ kind, name, more, each }: StatedScope): string {
  const own = kind === "all" ? [] : [name === "" ? kind : `${kind}:${encoded(name)}`];
  const stated = Object.entries(more).flatMap(([dimension, value]) =>
    value === "" ? [] : [`${dimension}:${encoded(value)}`],
  );
  const words = [...own, ...stated, ...(each === "" ? [] : [`each-${each}`])];
  return words.length === 0 ? "all" : words.join(" ");
}

function encoded(value: string): string {
  return value.replaceAll("%", "%25").replaceAll(" ", "%20");
}
