import { add, formatUsd, noMoney, type PicoUsd } from "../../core/money.ts";
import type { ChargedKey } from "../../ports/events.ts";

/** Formats of a metrics page: Prometheus' own text, and OpenMetrics, which supports exemplars. */
export type Format = "prometheus" | "openmetrics";

/** All series with the same name. */
export interface Family {
  readonly name: string;
  /** Description in one sentence, with the unit. */
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  /**
   * Yields the lines of each series, each with its line end. Reads each value when its line is written, so values may
   * change while the page is written.
   */
  lines(format: Format): Iterable<string>;
}

/** Returns the name of a counter, gauge or bucket with its labels. The labels must already be escaped. */
export function seriesName(name: string, labels: string): string {
  return labels === "" ? name : `${name}{${labels}}`;
}

/** Formats a number. The text is valid in both formats. */
export function numberText(value: number): string {
  if (value === Infinity) return "+Inf";
  return value === -Infinity ? "-Inf" : String(value);
}

const escapes: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", '"': '\\"' };

/** Escapes the value of a label, or the help text of a metric on an OpenMetrics page. */
export function escaped(text: string): string {
  return text.replace(/[\\\n"]/g, (character) => escapes[character] ?? character);
}

/** Formats the labels of a series without braces: `route="/metrics",model=""`. Returns "" if there are none. */
export function labelText(names: readonly string[], values: readonly (string | number)[]): string {
  return names.map((name, index) => `${name}="${escaped(String(values[index] ?? ""))}"`).join(",");
}

/**
 * Node in the tree of label values. It contains the series whose labels end here, and one node for each value of the
 * next label.
 */
class Branch<Series> {
  series: Series | undefined;
  readonly next = new Map<string, Branch<Series>>();
}

/**
 * Series by their labels. A series is created when it is first requested. The cache is a tree, because joining labels
 * into one key takes longer than counting.
 */
export class SeriesCache<Series> {
  readonly #root = new Branch<Series>();
  readonly #all: Series[] = [];
  readonly #make: (...labels: string[]) => Series;

  constructor(make: (...labels: string[]) => Series) {
    this.#make = make;
  }

  of(...labels: string[]): Series {
    let branch = this.#root;
    for (const label of labels) {
      let next = branch.next.get(label);
      if (next === undefined) branch.next.set(label, (next = new Branch()));
      branch = next;
    }
    if (branch.series === undefined) {
      branch.series = this.#make(...labels);
      this.#all.push(branch.series);
    }
    return branch.series;
  }

  /** Returns all series in the order of their creation. */
  all(): Iterable<Series> {
    return this.#all;
  }
}

interface Total {
  /** Returns the total as the metrics page shows it. */
  text(): string;
}

class Count implements Total {
  #total = 0;

  add(count: number): void {
    this.#total += count;
  }

  text(): string {
    return String(this.#total);
  }
}

/** Exact sum. Ignores negative amounts, because a counter must not decrease. */
export class Money implements Total {
  #total: PicoUsd = noMoney;

  add(amount: PicoUsd): void {
    if (amount > 0n) this.#total = add(this.#total, amount);
  }

  text(): string {
    return usdText(this.#total);
  }
}

/** Formats an amount with all its digits, without trailing zeros: "0", "12", "0.00125". */
export function usdText(amount: PicoUsd): string {
  return formatUsd(amount).replace(/\.?0+$/, "");
}

/**
 * Counters that keep their own totals. Unlike prom-client's counters, they need only one addition for each count, and
 * keep amounts of money exact. A series starts at 0 when it is first requested.
 */
class CounterFamily<T extends Total> implements Family {
  readonly type = "counter";
  readonly name: string;
  readonly help: string;
  readonly #series: SeriesCache<{ readonly name: string; readonly total: T }>;

  constructor(name: string, help: string, labels: readonly string[], zero: () => T) {
    this.name = name;
    this.help = help;
    this.#series = new SeriesCache((...values) => ({
      name: seriesName(name, labelText(labels, values)),
      total: zero(),
    }));
  }

  of(...labels: string[]): T {
    return this.#series.of(...labels).total;
  }

  *lines(): Iterable<string> {
    for (const { name, total } of this.#series.all()) yield `${name} ${total.text()}\n`;
  }
}

export function counts(name: string, help: string, labels: readonly string[] = []): CounterFamily<Count> {
  return new CounterFamily(name, help, labels, () => new Count());
}

export function amounts(name: string, help: string, labels: readonly string[] = []): CounterFamily<Money> {
  return new CounterFamily(name, help, labels, () => new Money());
}

/** Observation with the request that it comes from. */
interface Exemplar {
  readonly requestId: string;
  readonly value: number;
  /** Milliseconds since 1970 UTC. */
  readonly at: number;
}

/** Counts of one series by bucket. Each bucket keeps its latest request as an exemplar. */
class HistogramSeries {
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  readonly #exemplars: (Exemplar | undefined)[];
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
    this.#exemplars = Array.from({ length: bounds.length + 1 });
  }

  observe(value: number, from?: { readonly requestId: string; readonly at: number }): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] ?? Infinity)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
    if (from !== undefined) this.#exemplars[bucket] = { requestId: from.requestId, value, at: from.at };
  }

  /** Returns the lines of the series. `names.bucket` ends before the bound of the bucket. */
  text(names: SeriesNames, format: Format): string {
    let text = "";
    let total = 0;
    for (let bucket = 0; bucket < this.#counts.length; bucket++) {
      total += this.#counts[bucket] ?? 0;
      text += names.bucket + boundText(this.#bounds[bucket] ?? Infinity, format) + total;
      const exemplar = this.#exemplars[bucket];
      if (format === "openmetrics" && exemplar !== undefined) text += exemplarText(exemplar);
      text += "\n";
    }
    return `${text}${names.sum} ${numberText(this.#sum)}\n${names.count} ${total}\n`;
  }
}

interface SeriesNames {
  /** Text before the value of `le`: `name_bucket{route="x",le="` */
  readonly bucket: string;
  readonly sum: string;
  readonly count: string;
}

/**
 * Returns the text between a bucket's name and its count: the bound and the end of the labels. OpenMetrics requires a
 * decimal point, so that each bound has only one form.
 */
function boundText(bound: number, format: Format): string {
  const text = numberText(bound);
  return `${format === "openmetrics" && Number.isInteger(bound) ? `${text}.0` : text}"} `;
}

function exemplarText({ requestId, value, at }: Exemplar): string {
  return ` # {request_id="${requestId}"} ${numberText(value)} ${at / 1000}`;
}

/** Histograms with the same buckets for all series. A series starts at 0 when it is first requested. */
export class HistogramFamily implements Family {
  readonly type = "histogram";
  readonly name: string;
  readonly help: string;
  readonly #series: SeriesCache<{ readonly names: SeriesNames; readonly counts: HistogramSeries }>;

  /** `bounds` must be in ascending order. A bucket for all higher values is added. */
  constructor(name: string, help: string, labels: readonly string[], bounds: readonly number[]) {
    this.name = name;
    this.help = help;
    this.#series = new SeriesCache((...values) => ({
      names: namesOf(name, labelText(labels, values)),
      counts: new HistogramSeries(bounds),
    }));
  }

  of(...labels: string[]): HistogramSeries {
    return this.#series.of(...labels).counts;
  }

  *lines(format: Format): Iterable<string> {
    for (const { names, counts } of this.#series.all()) yield counts.text(names, format);
  }
}

function namesOf(name: string, labels: string): SeriesNames {
  return {
    bucket: `${name}_bucket{${labels === "" ? "" : `${labels},`}le="`,
    sum: seriesName(`${name}_sum`, labels),
    count: seriesName(`${name}_count`, labels),
  };
}

/**
 * Largest number of models that metrics show by name. Clients can make up names only in the subjects of budgets; all
 * other names are ids of price files.
 */
export const modelsMax = 2_000;
/** Largest number of teams that metrics show by name. */
const teamsMax = 1_000;
/** Largest number of unknown request fields that metrics show by name. */
export const fieldsMax = 100;
/** Largest number of price groups that metrics show by name. */
export const groupsMax = 200;
/**
 * Largest number of pairs of key and model whose series start at 0 with the pair's first request. The series of further
 * pairs start with the pair's first charge.
 */
export const startedMax = 100_000;

/** Label of everything that metrics do not show by name. */
export const other = "other";

/** Label that accepts a limited number of names. Later names become `other` until a restart. */
export class BoundedLabel {
  readonly #max: number;
  readonly #known = new Set<string>();

  constructor(max: number) {
    this.#max = max;
  }

  of(name: string): string {
    if (this.#known.has(name)) return name;
    if (this.#known.size >= this.#max) return other;
    this.#known.add(name);
    return name;
  }
}

/**
 * Decides which keys, teams, models and subjects metrics show by name. The counters of charges and the gauges of the
 * ledger use the same names.
 */
export class KeyNames {
  readonly #keys: BoundedLabel;
  /** Pairs of key and team. A key that moves between teams has a series for each team. Later pairs become `other`. */
  readonly #pairs: BoundedLabel;
  readonly #teams = new BoundedLabel(teamsMax);
  readonly #models = new BoundedLabel(modelsMax);

  readonly #subjects: BoundedLabel;

  constructor(keysMax: number, subjectsMax: number) {
    this.#subjects = new BoundedLabel(subjectsMax);
    this.#keys = new BoundedLabel(keysMax);
    this.#pairs = new BoundedLabel(2 * keysMax);
  }

  key(name: string): string {
    return this.#keys.of(name);
  }

  /** Returns the label of a user or of a tag's value. */
  subject(value: string): string {
    return this.#subjects.of(value);
  }

  /** Returns the label of a model in a budget's subject. Clients can make up names that no price file has. */
  model(name: string): string {
    return this.#models.of(name);
  }

  /** Returns the label of a team; "" if there is none. */
  team(name: string | null): string {
    return name === null ? "" : this.#teams.of(name);
  }

  /** Returns the labels `key` and `team` of a charge. Both are empty for a request without a key. */
  labelsOf(key: ChargedKey | null): readonly [key: string, team: string] {
    if (key === null) return ["", ""];
    if (this.key(key.name) === other || this.#pairs.of(`${key.name}\n${key.team ?? ""}`) === other) return [other, ""];
    return [key.name, this.team(key.team)];
  }
}
