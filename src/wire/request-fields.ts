/**
 * What a field of a request means for its price and for who answers. A field that a table does not have is unknown: it
 * holds the model's whole context, and its charge has the doubt `unknown_field`.
 *
 * - `priced`: read when the request is priced; refused when given twice or in another letter case.
 * - `free`: cannot raise the cost beyond the text it adds to the prompt.
 * - `context`: may add tokens that the body does not show; holds the model's whole context.
 * - `models`: names models that may answer; each must be allowed and priced, and the most expensive one is held.
 * - `cache_lifetime`: how long a prompt cache is kept; an hour is billed as a class of its own.
 */
export type FieldMeaning = "priced" | "free" | "context" | "models" | "cache_lifetime" | Expensive | Members;

/** May cost more than any number of tokens at the model's rates; refused under a hard budget. */
export interface Expensive {
  /** Why, as the end of a sentence: "it chooses who answers". */
  readonly expensive: string;
  /** Values that cost nothing more. */
  readonly unless?: readonly unknown[];
  /** True if the answer's usage shows the cost, so that the charge is not in doubt. */
  readonly shown?: true;
}

/** An object whose members have meanings of their own. */
export interface Members {
  readonly members: RequestFields;
  /** Meaning of a member that is not listed; unknown unless given. */
  readonly otherwise?: FieldMeaning;
}

/** The fields of one kind of request, or the members of one kind of object, looked up by the names that came. */
export class RequestFields {
  readonly #meanings: ReadonlyMap<string, FieldMeaning>;
  readonly #pricedByFold: ReadonlyMap<string, string>;

  constructor(meanings: Readonly<Record<string, FieldMeaning>>) {
    this.#meanings = new Map(Object.entries(meanings));
    const priced = [...this.#meanings].filter(([, meaning]) => meaning !== "free");
    this.#pricedByFold = new Map(priced.map(([name]) => [fold(name), name]));
  }

  /** Every field with its meaning. */
  entries(): Iterable<readonly [name: string, meaning: FieldMeaning]> {
    return this.#meanings;
  }

  /** Returns the meaning of a field by its exact name; undefined for an unknown one. */
  meaningOf(field: string): FieldMeaning | undefined {
    return this.#meanings.get(field);
  }

  /** Returns the meaning of a form's part: `name[]` and `name[member]` belong to `name`. */
  meaningOfPart(part: string): FieldMeaning | undefined {
    return this.#meanings.get(part) ?? this.#meanings.get(baseOf(part));
  }

  /**
   * Returns the field, other than a free one, that a case-insensitive reader would see in this name; undefined for
   * none.
   */
  pricedFieldFor(name: string): string | undefined {
    const exact = this.#meanings.get(name);
    if (exact !== undefined) return exact === "free" ? undefined : name;
    return this.#pricedByFold.get(fold(name));
  }

  /** Reports that a form may have several parts of this name. */
  repeats(part: string): boolean {
    return part.endsWith("]") || this.#meanings.get(part) === "free";
  }
}

/** Reports that texts in a field of this meaning may be names of models. */
export function mayNameModels(meaning: FieldMeaning): boolean {
  return meaning === "models" || (typeof meaning === "object" && !("shown" in meaning));
}

/** Returns the field that a part of a form belongs to: "include" for "include[]". */
export function baseOf(part: string): string {
  const bracket = part.indexOf("[");
  return bracket === -1 ? part : part.slice(0, bracket);
}

/** Reports that a case-insensitive reader would take one of these members for `name`. */
export function hasVariantOf(name: string, members: object): boolean {
  return Object.keys(members).some((member) => member !== name && fold(member) === name);
}

/** Reports that a case-insensitive reader would see one name in both. */
export function equalFolded(one: string, other: string): boolean {
  return fold(one) === fold(other);
}

/** Simple case folding as Go's JSON reader does it: the long s and the Kelvin sign fold to s and k. */
function fold(name: string): string {
  return name.toLowerCase().replaceAll("\u017f", "s").replaceAll("\u212a", "k");
}
