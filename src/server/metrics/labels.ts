/** The label of everything that has no name of its own in the metrics. */
export const other = "other";

/** Admits names up to a cap; later ones are `other`, and stay so until a restart. */
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

/** A node of the tree of labels: its series, and the nodes of the next label's values. */
class Branch<Series> {
  series: Series | undefined;
  readonly next = new Map<string, Branch<Series>>();
}

/** Series by their labels, created when first asked for. A tree by label: joining them into one key costs more than the count. */
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

  /** In the order of their creation. */
  all(): Iterable<Series> {
    return this.#all;
  }
}

const escapes: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", '"': '\\"' };

/** The value of a label, or the HELP of an OpenMetrics page, as it is written between quotes or after its name. */
export function escaped(text: string): string {
  return text.replace(/[\\\n"]/g, (character) => escapes[character] ?? character);
}

/** `route="/metrics",model=""`: the labels of a series without their braces; "" for none. */
export function labelText(names: readonly string[], values: readonly (string | number)[]): string {
  return names.map((name, index) => `${name}="${escaped(String(values[index] ?? ""))}"`).join(",");
}
