/**
 * What a top-level field of a request means for its price. A field that a table does not have may cost money in ways we
 * cannot see: it is `context`.
 *
 * - `priced`: read when the request is priced; refused when given twice or in another letter case.
 * - `free`: cannot raise the cost beyond the text it adds to the prompt.
 * - `context`: may add tokens that the body does not show; holds the model's whole context.
 * - `unbounded`: may cost more than any number of tokens at the model's rates; refused under a hard budget.
 */
export type FieldMeaning = "priced" | "free" | "context" | "unbounded";

/** The fields of one kind of request, looked up by the names that came. */
export class RequestFields {
  readonly meanings: Readonly<Record<string, FieldMeaning>>;
  readonly #pricedByFold: ReadonlyMap<string, string>;

  constructor(meanings: Readonly<Record<string, FieldMeaning>>) {
    this.meanings = meanings;
    const priced = Object.entries(meanings).filter(([, meaning]) => meaning !== "free");
    this.#pricedByFold = new Map(priced.map(([name]) => [fold(name), name]));
  }

  /** What a field means, by its exact name. */
  meaningOf(field: string): FieldMeaning {
    return this.#exact(field) ?? "context";
  }

  /** The priced field that a reader without regard to letter case would take this name for; undefined when none. */
  pricedTwin(name: string): string | undefined {
    const exact = this.#exact(name);
    if (exact !== undefined) return exact === "free" ? undefined : name;
    return this.#pricedByFold.get(fold(name));
  }

  /** Whether a form may have several parts of this name. */
  repeats(field: string): boolean {
    return field.endsWith("[]") || this.meanings[field] === "free";
  }

  #exact(field: string): FieldMeaning | undefined {
    return Object.hasOwn(this.meanings, field) ? this.meanings[field] : undefined;
  }
}

/** Whether a reader without regard to letter case would take one of these members for `name`. */
export function hasTwinOf(name: string, members: object): boolean {
  return Object.keys(members).some((member) => member !== name && fold(member) === name);
}

/** Whether a reader without regard to letter case would take one name for the other. */
export function areTwins(one: string, other: string): boolean {
  return fold(one) === fold(other);
}

/** Simple case folding as Go's JSON reader does it: the long s and the Kelvin sign fold to s and k. */
function fold(name: string): string {
  return name.toLowerCase().replaceAll("\u017f", "s").replaceAll("\u212a", "k");
}
