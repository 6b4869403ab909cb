import { compare, decimal, times, type Decimal } from "./decimal.ts";
import type { CsvRecord } from "./csv.ts";

/** Requirements model of a FOCUS version, as published by the FinOps Foundation. */
export interface RulesModel {
  readonly Details: { readonly FOCUSVersion: string };
  readonly ApplicabilityCriteria: Readonly<Record<string, unknown>>;
  readonly ModelDatasets: { readonly CostAndUsage: { readonly ModelRules: readonly string[] } };
  readonly ModelRules: Readonly<Record<string, Rule>>;
}

interface Rule {
  readonly Function: string;
  readonly Status: string;
  readonly ApplicabilityCriteria: readonly string[];
  readonly ValidationCriteria: {
    readonly MustSatisfy: string;
    readonly Keyword: string;
    readonly Requirement: Check | Nothing;
    readonly Condition: Check | Nothing;
  };
}

type Nothing = Readonly<Record<string, never>>;

interface Check {
  readonly CheckFunction: string;
  readonly Items?: readonly Check[];
  readonly ModelRuleId?: string;
  readonly ColumnName?: string;
  readonly ColumnAName?: string;
  readonly ColumnBName?: string;
  readonly ResultColumnName?: string;
  readonly ExpectedCount?: number;
  readonly Value?: string | number | null;
}

interface Verdict {
  /** Rules that were checked on every row to which they apply. */
  readonly checked: readonly string[];
  /** Rules that were not checked, each with the reason. */
  readonly listed: Readonly<Record<string, string>>;
  /** Violated rules, each with a row that violates it. */
  readonly broken: readonly string[];
}

/** Checks an export against the rules. `unsupported`: criteria that do not apply, each with the reason. */
export function judge(
  model: RulesModel,
  data: { readonly columns: readonly string[]; readonly records: readonly CsvRecord[] },
  unsupported: Readonly<Record<string, string>>,
): Verdict {
  const walk = new Walk(model, data, unsupported);
  for (const id of model.ModelDatasets.CostAndUsage.ModelRules) walk.visit(id, []);
  for (const [id, rule] of Object.entries(model.ModelRules)) walk.mention(id, rule);
  return { checked: [...walk.checked], listed: walk.listed, broken: walk.broken };
}

class Walk {
  readonly checked = new Set<string>();
  readonly listed: Record<string, string> = {};
  readonly broken: string[] = [];
  readonly #model: RulesModel;
  readonly #columns: ReadonlySet<string>;
  readonly #records: readonly CsvRecord[];
  readonly #unsupported: Readonly<Record<string, string>>;
  readonly #distinct = new Map<string, ReadonlyMap<string | null, ReadonlySet<string | null>>>();

  constructor(
    model: RulesModel,
    data: { readonly columns: readonly string[]; readonly records: readonly CsvRecord[] },
    unsupported: Readonly<Record<string, string>>,
  ) {
    this.#model = model;
    this.#columns = new Set(data.columns);
    this.#records = data.records;
    this.#unsupported = unsupported;
  }

  /** Checks a rule and its subrules, on the rows that meet the conditions above it. */
  visit(id: string, conditions: readonly Check[]): void {
    const rule = this.#rule(id);
    const reason = this.#whyNot(rule);
    if (reason !== null) return this.#list(id, reason);
    const { Requirement: requirement, Condition: condition, MustSatisfy: text } = rule.ValidationCriteria;
    const all = isCheck(condition) ? [...conditions, condition] : conditions;
    if (!isCheck(requirement)) return this.#list(id, `prose: ${text}`);
    const under = rulesUnder(requirement);
    this.checked.add(id);
    if (requirement.CheckFunction === "AND" && under.length > 0) {
      for (const each of under) this.visit(each, all);
      return;
    }
    // Alternatives are checked by the rule that names them.
    for (const each of under) this.checked.add(each);
    const fault = this.#faultOf(requirement, all);
    if (fault !== null) this.broken.push(`${id}: ${text} ${fault}`);
  }

  /** Lists a rule that belongs to no dataset, such as a format rule, which the format checks cover. */
  mention(id: string, rule: Rule): void {
    if (this.checked.has(id) || id in this.listed) return;
    const reason = this.#whyNot(rule);
    const under = rule.ValidationCriteria.Requirement;
    this.#list(
      id,
      reason ?? (isCheck(under) ? "a format: formatOf checks it" : `prose: ${rule.ValidationCriteria.MustSatisfy}`),
    );
  }

  #list(id: string, reason: string): void {
    this.listed[id] = reason;
    const { Requirement: requirement } = this.#rule(id).ValidationCriteria;
    if (!isCheck(requirement)) return;
    for (const each of rulesUnder(requirement))
      if (!this.checked.has(each) && !(each in this.listed)) this.#list(each, reason);
  }

  #whyNot({
    Status: status,
    ApplicabilityCriteria: criteria,
    ValidationCriteria: { Keyword: keyword },
  }: Rule): string | null {
    const unsupported = criteria.find((criterion) => criterion in this.#unsupported);
    if (unsupported !== undefined) return `${unsupported}: ${this.#unsupported[unsupported]}`;
    if (status !== "Active") return `status ${status}`;
    return keyword === "MAY" ? "a permission, no demand" : null;
  }

  #faultOf(requirement: Check, conditions: readonly Check[]): string | null {
    if (requirement.CheckFunction === "ColumnPresent") return this.#holds(requirement, {}) ? null : "";
    const broken = this.#records.find(
      (row) => conditions.every((condition) => this.#holds(condition, row)) && !this.#holds(requirement, row),
    );
    return broken === undefined ? null : JSON.stringify(broken);
  }

  #holds(check: Check, row: CsvRecord): boolean {
    const { CheckFunction: name, Items: items = [], Value: value = null } = check;
    const cell = (column = "") => row[column] ?? null;
    const here = cell(check.ColumnName);
    switch (name) {
      case "AND":
        return items.every((item) => this.#holds(item, row));
      case "OR":
        return items.some((item) => this.#holds(item, row));
      case "CheckModelRule":
        return this.#ruleHolds(check.ModelRuleId ?? "", row);
      case "ColumnPresent":
        return this.#columns.has(check.ColumnName ?? "");
      case "CheckValue":
        return isSameValue(here, value);
      case "CheckNotValue":
        return !isSameValue(here, value);
      case "CheckSameValue":
        return cell(check.ColumnAName) === cell(check.ColumnBName);
      case "CheckNotSameValue":
        return cell(check.ColumnAName) !== cell(check.ColumnBName);
      case "CheckGreaterOrEqualThanValue":
        return here === null || compare(number(here), number(String(value))) >= 0n;
      case "ColumnByColumnEqualsColumnValue": {
        const [a, b, result] = [cell(check.ColumnAName), cell(check.ColumnBName), cell(check.ResultColumnName)];
        return (
          a !== null && b !== null && result !== null && compare(times(number(a), number(b)), number(result)) === 0n
        );
      }
      case "CheckDistinctCount":
        return (
          this.#distinctOf(check.ColumnAName ?? "", check.ColumnBName ?? "", cell(check.ColumnAName)) ===
          check.ExpectedCount
        );
      default:
        return here === null || formatOf(name)(here);
    }
  }

  #ruleHolds(id: string, row: CsvRecord): boolean {
    const { Requirement: requirement, Condition: condition } = this.#rule(id).ValidationCriteria;
    if (isCheck(condition) && !this.#holds(condition, row)) return true;
    return !isCheck(requirement) || this.#holds(requirement, row);
  }

  /** Returns the number of values of one column in rows with a value of another. */
  #distinctOf(a: string, b: string, value: string | null): number {
    const name = `${a} ${b}`;
    let found = this.#distinct.get(name);
    if (found === undefined) {
      const sets = new Map<string | null, Set<string | null>>();
      for (const row of this.#records) {
        const set = sets.get(row[a] ?? null) ?? new Set();
        sets.set(row[a] ?? null, set.add(row[b] ?? null));
      }
      this.#distinct.set(name, (found = sets));
    }
    return found.get(value)?.size ?? 0;
  }

  #rule(id: string): Rule {
    const rule = this.#model.ModelRules[id];
    if (rule === undefined) throw new Error(`no rule ${id}`);
    return rule;
  }
}

function isCheck(check: Check | Nothing): check is Check {
  return "CheckFunction" in check;
}

function rulesUnder(check: Check): string[] {
  return (check.Items ?? []).flatMap((item) =>
    item.ModelRuleId === undefined ? rulesUnder(item) : [item.ModelRuleId],
  );
}

function isSameValue(cell: string | null, value: string | number | null): boolean {
  if (cell === null || value === null) return cell === value;
  const [a, b] = [decimal(cell), decimal(String(value))];
  return a !== undefined && b !== undefined ? compare(a, b) === 0n : cell === String(value);
}

function number(text: string): Decimal {
  const value = decimal(text);
  if (value === undefined) throw new Error(`not a decimal: ${text}`);
  return value;
}

const currencies = new Set(Intl.supportedValuesOf("currency"));
const isNumeric = (text: string) => /^-?\d+(\.\d+)?(E-?\d+)?$/.test(text);
const isDateTime = (text: string) =>
  /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/.test(text) && !Number.isNaN(Date.parse(text));
const isText = (text: string) => text.isWellFormed() && text.trim() !== "";

/**
 * Returns the check of a format whose rules are prose: DateTimeFormat, NumericFormat, StringHandling, UnitFormat,
 * KeyValueFormat, CurrencyFormat.
 */
function formatOf(name: string): (text: string) => boolean {
  switch (name) {
    case "TypeDecimal":
    case "FormatNumeric":
    case "CheckDecimalValue":
      return isNumeric;
    case "TypeDateTime":
    case "FormatDateTime":
      return isDateTime;
    case "TypeString":
    case "FormatString":
      return isText;
    case "FormatUnit":
      return (text) => /^(\d+ )?[A-Z][A-Za-z]+(-[A-Z][A-Za-z]+|\/[A-Z][A-Za-z]+)?$/.test(text);
    case "FormatCurrency":
      return (text) => /^[A-Z]{3}$/.test(text);
    case "CheckNationalCurrency":
      return (text) => currencies.has(text);
    case "FormatKeyValue":
      return isKeyValue;
    default:
      throw new Error(`no such check: ${name}`);
  }
}

function isKeyValue(text: string): boolean {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const names = Object.keys(value);
  const isWrittenOnce = JSON.stringify(value) === text || new Set(names).size === names.length;
  return (
    isWrittenOnce &&
    Object.values(value).every((each) => each === null || ["string", "number", "boolean"].includes(typeof each))
  );
}
