import { mergeDoubts, noDoubts, type Doubt } from "../core/usage.ts";
import { isObject, listOr, objectOr, parseJson, skipString, storedText, type Places } from "./json.ts";
import { invalid, type Refused } from "../core/refusals.ts";
import { userPattern } from "../core/keys.ts";

/**
 * Effect of a request field on the price and on the model that answers. A field that is not in the table is unknown.
 * Farebox holds the model's whole context for an unknown field, and the charge has the doubt `unknown_field`.
 *
 * - `priced`: Farebox reads the field to price the request. It refuses a request that repeats the field or writes the
 *   name in another letter case.
 * - `free`: cannot raise the cost beyond the text that it adds to the prompt.
 * - `context`: may add tokens that the body does not show; Farebox holds the model's whole context for it.
 * - `models`: names models that may answer. Each must be allowed and priced. The most expensive model decides the hold.
 * - `cache_lifetime`: lifetime of a prompt cache; a lifetime of an hour is billed as a separate class.
 */
export type FieldMeaning = "priced" | "free" | "context" | "models" | "cache_lifetime" | Expensive | Members;

/**
 * Meaning of a field that may cost more than any number of tokens at the model's rates. A hard budget refuses such a
 * field.
 */
export interface Expensive {
  /** Reason why the field is expensive. It follows a colon in the refusal: "it can choose another model". */
  readonly expensive: string;
  /** Values without an extra cost. */
  readonly unless?: readonly unknown[];
  /** True if the answer's usage shows the cost. The field then adds no doubt to the charge. */
  readonly inUsage?: true;
  /** True if the field asks for tools that run at the gateway. */
  readonly isTool?: true;
}

/** Meaning of an object for which each member has a meaning. */
export interface Members {
  readonly members: RequestFields;
  /** Meaning of a member that is not listed; such a member is unknown by default. */
  readonly otherwise?: FieldMeaning;
}

/**
 * Members of objects by the object's `type`. `context`: a known type whose members do not bound its tokens. `history`:
 * a type of earlier output of a model or a tool, whose members do not bound its tokens either. Farebox does not take
 * texts in such output for names of requested models.
 */
export type Kinds = ReadonlyMap<string, RequestFields | "context" | "history">;

/** Table of the fields of one kind of request, or of the members of one kind of object. */
export class RequestFields {
  readonly #meanings: ReadonlyMap<string, FieldMeaning>;
  readonly #notFreeByFolded: ReadonlyMap<string, string>;
  /** Lengths of the names that are not free. Names that are equal without letter case have the same length. */
  readonly #lengths: ReadonlySet<number>;
  #repeatable: Places;

  constructor(meanings: Readonly<Record<string, FieldMeaning>>) {
    this.#meanings = new Map(Object.entries(meanings));
    const notFree = [...this.#meanings].filter(([, meaning]) => meaning !== "free");
    this.#notFreeByFolded = new Map(notFree.map(([name]) => [fold(name), name]));
    this.#lengths = new Set(notFree.map(([name]) => name.length));
    const freeFields = [...this.#meanings].filter(([, meaning]) => meaning === "free");
    this.#repeatable = new Map(freeFields.map(([name]) => [name, "free"]));
  }

  /** Places in a request whose members may be repeated: the free fields, and the places of `repeatingIn`. */
  get repeatable(): Places {
    return this.#repeatable;
  }

  /** Permits repeated members at further places. Returns the same table. */
  repeatingIn(places: Places): this {
    this.#repeatable = new Map([...places, ...this.#repeatable]);
    return this;
  }

  /** Returns every field with its meaning. */
  entries(): Iterable<readonly [name: string, meaning: FieldMeaning]> {
    return this.#meanings;
  }

  /** Returns the meaning of a field by its exact name; undefined for an unknown field. */
  meaningOf(field: string): FieldMeaning | undefined {
    return this.#meanings.get(field);
  }

  /** Returns the meaning of a part of a form. The parts `name[]` and `name[member]` belong to the field `name`. */
  meaningOfPart(part: string): FieldMeaning | undefined {
    return this.#meanings.get(part) ?? this.#meanings.get(baseOf(part));
  }

  /**
   * Returns the field that a case-insensitive reader would see in this name; undefined if there is none or if the field
   * is free.
   */
  fieldReadAs(name: string): string | undefined {
    const exact = this.#meanings.get(name);
    if (exact !== undefined) return exact === "free" ? undefined : name;
    return this.#lengths.has(name.length) ? this.#notFreeByFolded.get(fold(name)) : undefined;
  }

  /** Returns true if a form may have several parts of this name. */
  mayRepeat(part: string): boolean {
    return part.endsWith("]") || this.#meanings.get(part) === "free";
  }
}

/** Returns true if texts in a field with this meaning may be names of models. */
export function mayNameModels(meaning: FieldMeaning): boolean {
  return meaning === "models" || (typeof meaning === "object" && !("inUsage" in meaning));
}

/** Returns the field that a part of a form belongs to: "include" for "include[]". */
export function baseOf(part: string): string {
  const bracket = part.indexOf("[");
  return bracket === -1 ? part : part.slice(0, bracket);
}

/** Returns true if a case-insensitive reader would mistake another member of the object for `name`. */
export function hasVariantOf(name: string, members: object): boolean {
  for (const member in members)
    if (member.length === name.length && member !== name && fold(member) === name) return true;
  return false;
}

/** Returns true if a case-insensitive reader would read both texts as the same name. */
export function equalFolded(one: string, other: string): boolean {
  return fold(one) === fold(other);
}

/** Folds letter case like Go's JSON reader: the long s and the Kelvin sign become s and k. */
function fold(name: string): string {
  return name.toLowerCase().replaceAll("\u017f", "s").replaceAll("\u212a", "k");
}

/** Findings about a request's fields: models that may answer, and unknown fields. */
export interface FieldFindings {
  /** Models that the request names in addition to `model`. Each must be allowed and priced. */
  readonly models: readonly string[];
  /**
   * Texts in unknown fields and in fields that may name models. If such a text is the name of a catalogue model, the
   * model counts as requested.
   */
  readonly mentions: readonly string[];
  /** Unknown fields by their path: "messages.images", "header anthropic-beta", "query x". */
  readonly unknown: readonly string[];
  /** Reason why the first unbounded field is expensive; null if there is none. */
  readonly why: string | null;
  /** Reasons why the amount may differ from the bill. */
  readonly doubts: readonly Doubt[];
  /** User that the body names; null for none. */
  readonly user: string | null;
}

const unknownField: readonly Doubt[] = ["unknown_field"];

/** Longest text that may be a model's name, in UTF-16 units. Real names are shorter. */
const nameUnitsMax = 256;
/** Largest number of models, and of texts in unknown fields. Legitimate requests have fewer. */
export const mentionsMax = { models: 100, texts: 10_000 } as const;
/** Largest depth of nested lists and objects that is searched for models. */
const modelsDepthMax = 8;

/** Collects the fields of a request that are neither `free` nor `priced`. */
export class Findings implements FieldFindings {
  /** Known and unknown fields that may add tokens which the body does not show. */
  readonly context: string[] = [];
  /** Fields whose cost is not bounded. */
  readonly expensive: string[] = [];
  readonly unknown: string[] = [];
  why: string | null = null;
  user: string | null = null;
  /** Reason why a model may be named in a part of a form that is not read; undefined if there is none. */
  unread: string | undefined;
  /** Refusal of a member whose name is written in another letter case; undefined if there is none. */
  fault: Refused | undefined;
  /** True if a part of the prompt is written to a cache for an hour. */
  cachesForHour = false;
  readonly #models = new Set<string>();
  readonly #mentions = new Set<string>();
  #hasHiddenCost = false;

  get models(): readonly string[] {
    return [...this.#models];
  }

  get mentions(): readonly string[] {
    return [...this.#mentions];
  }

  get doubts(): readonly Doubt[] {
    return this.unknown.length > 0 || this.#hasHiddenCost ? unknownField : noDoubts;
  }

  /** True if nothing was found. */
  get isEmpty(): boolean {
    return (
      this.context.length === 0 && this.expensive.length === 0 && this.#models.size === 0 && this.#mentions.size === 0
    );
  }

  /** True if the request names more models or texts than `mentionsMax` allows. */
  get hasTooMany(): boolean {
    return this.#models.size > mentionsMax.models || this.#mentions.size > mentionsMax.texts;
  }

  /** Records a field that is set. `meaning` is undefined for an unknown field. */
  field(path: string, value: unknown, meaning: FieldMeaning | undefined): void {
    if (meaning === "free" || meaning === "priced") return;
    if (meaning === undefined) this.unknownField(path, value);
    else if (meaning === "context") this.#add(this.context, path);
    else if (meaning === "models") this.#namesModels(path, value);
    else if (meaning === "cache_lifetime") this.#cacheLifetime(path, value);
    else if ("expensive" in meaning) this.#expensive(path, value, meaning);
    else if (isObject(value)) this.members(path, value, meaning.members, meaning.otherwise);
    else this.unknownField(path, value);
  }

  /** Records the parts of a form with this name. A text is null if it is too long to read; a file has no text. */
  part(name: string, texts: readonly (string | null)[], meaning: FieldMeaning | undefined): void {
    if (meaning === "free" || meaning === "priced") return;
    if (meaning === "models") {
      for (const text of texts) for (const model of namesIn(text ?? "")) this.model(model);
    } else if (typeof meaning === "object" && "members" in meaning)
      this.#expensive(name, texts, { expensive: "it can only be read in JSON" });
    else this.field(name, texts.length === 1 ? texts[0] : texts, meaning);
    for (const text of texts) for (const piece of namesIn(text ?? "")) this.mention(piece);
    if (!texts.includes(null)) return;
    this.tooExpensive(name, "it is too long to read");
    this.unread ??= `'${storedText(name)}' is too long to read`;
  }

  /** Records the members of an object, with their meanings in `fields`. `otherwise`: meaning of all other members. */
  members(path: string, object: object, fields: RequestFields, otherwise?: FieldMeaning): void {
    for (const name in object) {
      const known = fields.meaningOf(name);
      const meaning = known ?? otherwise;
      if (known === undefined) this.#checkCase(path, name, fields.fieldReadAs(name));
      if (meaning === "free") continue;
      const value = (object as Record<string, unknown>)[name];
      if (value !== null) this.field(`${path}.${name}`, value, meaning);
    }
  }

  /** Records an object according to its `type`. `defaultType` applies to an object without a type. */
  kind(path: string, value: unknown, kinds: Kinds, defaultType = ""): void {
    const object = objectOr(value);
    const type = object["type"] ?? defaultType;
    const known = typeof type === "string" ? kinds.get(type) : undefined;
    if (known === undefined)
      return this.unknownField(`${path}.${typeof type === "string" && type !== "" ? type : "type"}`, value);
    if (typeof known === "object") return this.members(path, object, known);
    this.#add(this.context, `${path}.${String(type)}`);
    if (known === "context") this.mentionIn(value);
  }

  /**
   * Records an unknown member of what a model said earlier. Only its bytes count, unless it may refer to content outside
   * the body. Texts in it name no model.
   */
  returned(path: string, refersOutside: boolean): void {
    this.#add(this.unknown, path);
    if (refersOutside) this.#add(this.context, path);
  }

  unknownField(path: string, value: unknown): void {
    this.#add(this.unknown, path);
    this.#add(this.context, path);
    this.mentionIn(value);
  }

  /** Records a field whose cost is not bounded. `why` follows a colon in the refusal. */
  tooExpensive(path: string, why: string): void {
    this.#add(this.expensive, path);
    this.why ??= why;
  }

  /** Records every text in a value, including member names, as a possible model name. */
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

  /**
   * Records every text in the bytes of a JSON value as a possible model name. Unlike `mentionIn`, also finds the values
   * of repeated members.
   */
  mentionInBytes(json: Buffer): void {
    for (let start = json.indexOf(0x22); start !== -1;) {
      const after = skipString(json, start);
      if (after - start <= nameUnitsMax * 6) {
        const text = parseJson(json.toString("utf8", start, after));
        if (typeof text === "string") this.mention(text);
      }
      start = json.indexOf(0x22, after);
    }
  }

  /** Records a text that may contain one model name, or several names with separators between them. */
  mention(text: string): void {
    if (text.length > nameUnitsMax || this.#mentions.size > mentionsMax.texts) return;
    if (text !== "") this.#mentions.add(text.trim());
    if (/[,;|]/.test(text)) for (const piece of text.split(/[,;|]/)) if (piece !== "") this.#mentions.add(piece.trim());
  }

  /** Records a model requested in addition to `model`. */
  model(name: string): void {
    const trimmed = name.trim();
    if (trimmed !== "" && this.#models.size <= mentionsMax.models) this.#models.add(trimmed);
  }

  /**
   * Records the models that a text names. If commas separate several models, each of them may answer. Ignores a single
   * name in the field `model`.
   */
  modelsIn(path: string, text: string): void {
    if (!text.includes(",")) return path === "model" ? undefined : this.model(text);
    for (const name of text.split(",")) this.model(name);
    this.tooExpensive(path, "each of several models may answer");
  }

  /** Records a member that a case-insensitive reader would read as the member `readAs`. */
  #checkCase(path: string, name: string, readAs: string | undefined): void {
    if (readAs === undefined || this.fault !== undefined) return;
    const field = `${path}.${readAs}`;
    this.fault = invalid(field, `'${path}.${name}' must be written '${field}'`);
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
      this.#expensive(path, value, { expensive: "another model may receive different fields" });
  }

  /** Returns the findings without unknown fields, for paths whose fields Farebox does not know. */
  withoutUnknown(): FieldFindings {
    return { models: this.models, mentions: this.mentions, unknown: [], why: null, doubts: noDoubts, user: this.user };
  }

  #cacheLifetime(path: string, value: unknown): void {
    if (value === "1h") this.cachesForHour = true;
    else if (value !== "5m")
      this.#expensive(path, value, { expensive: "a cache that is kept for longer may cost more" });
  }

  #expensive(path: string, value: unknown, { expensive, unless, inUsage }: Expensive): void {
    if (unless?.includes(value) === true) return;
    this.tooExpensive(path, expensive);
    if (inUsage === true) return;
    this.#hasHiddenCost = true;
    this.mentionIn(value);
  }

  #add(list: string[], path: string): void {
    if (!list.includes(path) && list.length < mentionsMax.models) list.push(path);
  }
}

/** Returns the pieces of a text that could be names of models. */
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
    user: a.user ?? b.user,
  };
}

/** Returns the user that a request's body names; null for none. An invalid name counts as missing. */
export function userInBody({ safety_identifier: identifier, user }: UserFields): string | null {
  if (typeof identifier === "string" && userPattern.test(identifier)) return identifier;
  return typeof user === "string" && userPattern.test(user) ? user : null;
}

interface UserFields {
  readonly safety_identifier?: unknown;
  readonly user?: unknown;
}
