import { mergeDoubts, noDoubts, type Doubt } from "../core/usage.ts";
import { isObject, listOr, objectOr, parseJson, skipString } from "./json.ts";
import type { Kinds } from "./field-table.ts";

/**
 * Meaning of a request's field for its price and for the model that answers. A field that is not in the table is
 * unknown: it holds the model's whole context, and its charge has the doubt `unknown_field`.
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

/** Meaning of a request's fields other than its price: models that may answer, and unknown fields. */
export interface FieldFindings {
  /** Models named in addition to `model`: each must be allowed and priced. */
  readonly models: readonly string[];
  /** Texts in fields that are unknown or choose the model. A text that names a catalogue model counts as requested. */
  readonly mentions: readonly string[];
  /** Unknown fields by their path: "messages.images", "header anthropic-beta", "query x". */
  readonly unknown: readonly string[];
  /** Why the first unbounded field is expensive; null for none. */
  readonly why: string | null;
  /** Reasons why the amount may differ from the bill. */
  readonly doubts: readonly Doubt[];
}

const unknownField: readonly Doubt[] = ["unknown_field"];

/** Longer than any name of a model. */
const nameMax = 256;
/** Most models, and most texts in unknown fields, of an honest request. */
export const mentionsMax = { models: 100, texts: 10_000 } as const;
/** Depth to which models are searched in nested lists and objects. */
const modelsDepthMax = 8;

/** Collects the fields of a request that are neither free nor plainly read. */
export class Findings implements FieldFindings {
  /** Fields that may add tokens which the body does not show, known and unknown ones. */
  readonly context: string[] = [];
  /** Fields with no bound on their cost. */
  readonly expensive: string[] = [];
  readonly unknown: string[] = [];
  why: string | null = null;
  /** True if a part of the prompt is written to a cache for an hour. */
  cachesForHour = false;
  readonly #models = new Set<string>();
  readonly #mentions = new Set<string>();
  #isHidden = false;

  get models(): readonly string[] {
    return [...this.#models];
  }

  get mentions(): readonly string[] {
    return [...this.#mentions];
  }

  get doubts(): readonly Doubt[] {
    return this.unknown.length > 0 || this.#isHidden ? unknownField : noDoubts;
  }

  /** True if nothing was found. */
  get isEmpty(): boolean {
    return (
      this.context.length === 0 && this.expensive.length === 0 && this.#models.size === 0 && this.#mentions.size === 0
    );
  }

  /** True if it names more models or texts than an honest request. */
  get isTooMuch(): boolean {
    return this.#models.size > mentionsMax.models || this.#mentions.size > mentionsMax.texts;
  }

  /** Records one field that is set; `meaning` is undefined for an unknown field. */
  field(path: string, value: unknown, meaning: FieldMeaning | undefined): void {
    if (meaning === "free" || meaning === "priced") return;
    if (meaning === undefined) this.unknownField(path, value);
    else if (meaning === "context") this.#add(this.context, path);
    else if (meaning === "models") this.#namesModels(path, value);
    else if (meaning === "cache_lifetime") this.#cacheLifetime(path, value);
    else if ("members" in meaning) this.#members(path, value, meaning);
    else this.#expensive(path, value, meaning);
  }

  /** Records a form's part by its texts, null for one too long to read; no texts for a file. */
  part(name: string, texts: readonly (string | null)[], meaning: FieldMeaning | undefined): void {
    if (meaning === "free" || meaning === "priced") return;
    if (meaning === "models") {
      for (const text of texts) for (const model of namesIn(text ?? "")) this.model(model);
    } else if (typeof meaning === "object" && "members" in meaning)
      this.#expensive(name, texts, { expensive: "it is read from JSON alone" });
    else this.field(name, texts.length === 1 ? texts[0] : texts, meaning);
    for (const text of texts) for (const piece of namesIn(text ?? "")) this.mention(piece);
    if (texts.includes(null)) this.tooExpensive(name, "it is too long to be read");
  }

  /** Records an object's members by their table. */
  members(path: string, object: object, fields: RequestFields): void {
    for (const name in object) {
      const meaning = fields.meaningOf(name);
      if (meaning === "free") continue;
      const value = (object as Record<string, unknown>)[name];
      if (value !== null) this.field(`${path}.${name}`, value, meaning);
    }
  }

  /** Records an object by its `type`, or `unsaid` if it states none. */
  kind(path: string, value: unknown, kinds: Kinds, unsaid = ""): void {
    const object = objectOr(value);
    const type = object["type"] ?? unsaid;
    const known = typeof type === "string" ? kinds.get(type) : undefined;
    if (known === undefined)
      return this.unknownField(`${path}.${typeof type === "string" && type !== "" ? type : "type"}`, value);
    if (typeof known === "object") return this.members(path, object, known);
    this.#add(this.context, `${path}.${String(type)}`);
    if (known === "context") this.mentionIn(value);
  }

  unknownField(path: string, value: unknown): void {
    this.#add(this.unknown, path);
    this.#add(this.context, path);
    this.mentionIn(value);
  }

  /** Records a field with no bound on its cost; `why` ends the sentence of its refusal. */
  tooExpensive(path: string, why: string): void {
    this.#add(this.expensive, path);
    this.why ??= why;
  }

  /** Records every text in a value as a possible model name, names of members included. */
  mentionIn(value: unknown): void {
    const open = [value];
    while (open.length > 0) {
      const next = open.pop();
      if (typeof next === "string") this.mention(next);
      else if (Array.isArray(next)) for (const item of next) open.push(item);
      else if (isObject(next)) {
        for (const name in next) {
          this.mention(name);
          open.push(next[name]);
        }
      }
    }
  }

  /** Does what `mentionIn` does for the bytes of a value, so that both of two equal members count. */
  mentionInBytes(json: Buffer): void {
    for (let start = json.indexOf(0x22); start !== -1;) {
      const after = skipString(json, start);
      if (after - start <= nameMax * 6) {
        const text = parseJson(json.toString("utf8", start, after));
        if (typeof text === "string") this.mention(text);
      }
      start = json.indexOf(0x22, after);
    }
  }

  /** Records a text that may be a model's name, or several separated by commas. */
  mention(text: string): void {
    if (text.length > nameMax || this.#mentions.size > mentionsMax.texts) return;
    if (text !== "") this.#mentions.add(text.trim());
    if (/[,;|]/.test(text)) for (const piece of text.split(/[,;|]/)) if (piece !== "") this.#mentions.add(piece.trim());
  }

  /** Records a model requested in addition to `model`. */
  model(name: string): void {
    const trimmed = name.trim();
    if (trimmed !== "" && this.#models.size <= mentionsMax.models) this.#models.add(trimmed);
  }

  /** Records a text that names a model, or several separated by commas: each of them may answer and be billed. */
  modelsIn(path: string, text: string): void {
    if (!text.includes(",")) return path === "model" ? undefined : this.model(text);
    for (const name of text.split(",")) this.model(name);
    this.tooExpensive(path, "each of several models may answer");
  }

  #namesModels(path: string, value: unknown, depth = 0): void {
    if (typeof value === "string") return this.modelsIn(path, value);
    if (depth > modelsDepthMax) return this.unknownField(path, value);
    for (const item of listOr(value)) this.#namesModels(path, item, depth + 1);
    if (!isObject(value)) return;
    if (!("model" in value)) {
      for (const name in value) this.#namesModels(path, value[name], depth + 1);
      return;
    }
    this.#namesModels(path, value["model"], depth + 1);
    if (Object.keys(value).length > 1)
      this.#expensive(path, value, { expensive: "another model may be asked with fields of its own" });
  }

  /** Returns the named models of a request whose fields are not known, so that none is unknown. */
  withoutUnknown(): FieldFindings {
    return { models: this.models, mentions: this.mentions, unknown: [], why: null, doubts: noDoubts };
  }

  #cacheLifetime(path: string, value: unknown): void {
    if (value === "1h") this.cachesForHour = true;
    else if (value !== "5m")
      this.#expensive(path, value, { expensive: "a cache that is kept for longer may cost more" });
  }

  #members(path: string, value: unknown, { members, otherwise }: Members): void {
    if (!isObject(value)) return this.unknownField(path, value);
    for (const name in value)
      if (value[name] !== null) this.field(`${path}.${name}`, value[name], members.meaningOf(name) ?? otherwise);
  }

  #expensive(path: string, value: unknown, { expensive, unless, shown }: Expensive): void {
    if (unless?.includes(value) === true) return;
    this.tooExpensive(path, expensive);
    if (shown === true) return;
    this.#isHidden = true;
    this.mentionIn(value);
  }

  #add(list: string[], path: string): void {
    if (!list.includes(path) && list.length < mentionsMax.models) list.push(path);
  }
}

/** Returns the pieces of any text that could be names of models. */
export function namesIn(text: string): string[] {
  return text.split(/[^\w.\-:@/+]+/).filter((piece) => piece !== "");
}

/** Merges the findings of two parts of one request. */
export function mergeFindings(a: FieldFindings, b: FieldFindings): FieldFindings {
  return {
    models: [...a.models, ...b.models],
    mentions: [...a.mentions, ...b.mentions],
    unknown: [...a.unknown, ...b.unknown],
    why: a.why ?? b.why,
    doubts: mergeDoubts(a.doubts, b.doubts),
  };
}
