/** The label for whatever has no name of its own in the metrics. */
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

/** Series looked up once for each set of labels: the lookup is dearer than the count. */
export class SeriesCache<Series> {
  readonly #series = new Map<string, Series>();
  readonly #make: (...labels: string[]) => Series;

  constructor(make: (...labels: string[]) => Series) {
    this.#make = make;
  }

  of(...labels: string[]): Series {
    const key = labels.join("\n");
    let found = this.#series.get(key);
    if (found === undefined) this.#series.set(key, (found = this.#make(...labels)));
    return found;
  }

  /** In the order of their making. */
  all(): Iterable<Series> {
    return this.#series.values();
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
