import { toolMarks } from "./field-table.ts";
import { equalFolded, hasVariantOf, type Findings, type Kinds, type RequestFields } from "./findings.ts";
import { isObject, jsonOf, mayBeShortened, objectOr, type JsonObject } from "./json.ts";
import { part as partShape, type Known, type Shape } from "./output-members.ts";

/*
 * Rules for what an answer said and a client sends back in the next request. Members that answers are known to have are
 * bounded by their bytes. Unknown members are too, with a doubt, unless they may refer to content outside the body.
 */

/** Object of an earlier answer: a message, one of its parts or blocks, or an item. */
export interface Returned {
  readonly object: JsonObject;
  /** Path of the object in a refusal and in the ledger: "messages", "messages.content". */
  readonly path: string;
  /** Known members of such an object in an answer. */
  readonly shape: Shape;
  /** Returns true for a member that the endpoint reads itself. */
  readonly isRead: (name: string) => boolean;
  /** Table of the request's members. A free member that is not in `shape` costs only its bytes. */
  readonly fields?: RequestFields;
  /** Returns the same object with its long strings; called only if the object has any in unknown members. */
  inFull(): unknown;
}

/** Member that answers are not known to have, or whose bytes do not bound its tokens. */
export interface ReturnedMember {
  readonly path: string;
  /** Name of the object's own member that contains it. */
  readonly name: string;
  /** True if it may refer to content that the body does not contain, or is content of another kind than text. */
  readonly refersOutside: boolean;
}

/**
 * Returns true for a message that a model wrote. Another spelling of `role` could make it another's message for the
 * gateway.
 */
export function isFromAssistant(message: JsonObject): boolean {
  return message["role"] === "assistant" && !hasVariantOf("role", message);
}

/** Records the members of an assistant's message. None of them names a model, because models only read them. */
export function recordReturned(returned: Returned, findings: Findings): void {
  const { found, marks } = walk(returned);
  for (const { path, refersOutside } of found) findings.returned(path, refersOutside);
  for (const mark of marks) findings.members(returned.path, mark, toolMarks);
}

/**
 * Records a part of an assistant's content. `kinds` contains the parts that clients may send; `shape`, the members of a
 * part in answers.
 */
export function recordReturnedPart(
  part: unknown,
  {
    path,
    kinds,
    shape = partShape,
    inFull,
  }: Pick<Returned, "path" | "inFull"> & { readonly kinds: Kinds; readonly shape?: Shape },
  findings: Findings,
): void {
  if (!isObject(part)) return findings.kind(path, part, kinds);
  const { type = "" } = part;
  const known = typeof type === "string" ? kinds.get(type) : "context";
  if (typeof known === "string") return findings.kind(path, part, kinds);
  if (known === undefined) findings.returned(`${path}.${String(type) || "type"}`, isContentName(String(type)));
  else findings.members(path, part, known, "free");
  const isRead = (name: string) => (known === undefined ? name === "type" : known.meaningOf(name) !== undefined);
  recordReturned({ object: part, path, shape, isRead, inFull }, findings);
}

/**
 * Returns the number of bytes of an object's members without those that the endpoint counts as text: an upper bound for
 * their tokens. Infinity if a member is nested too deeply to be written.
 */
export function bytesWithout(object: unknown, isCounted: (name: string, value: unknown) => boolean): number {
  let bytes = 0;
  if (!isObject(object)) return bytes;
  for (const name in object) {
    const value = object[name];
    if (value === null || isCounted(name, value)) continue;
    const json = jsonOf({ [name]: value });
    bytes += json === undefined ? Infinity : Buffer.byteLength(json);
  }
  return bytes;
}

/** Returns the number of bytes of a part's members without those that clients may send, which the endpoint counts. */
export function bytesOfPart(part: unknown, kinds: Kinds): number {
  const { type } = objectOr(part);
  const known = typeof type === "string" ? kinds.get(type) : undefined;
  return bytesWithout(part, (name, value) => {
    if (typeof known === "object") return known.meaningOf(name) !== undefined;
    return name === "type" || ((name === "text" || name === "refusal") && typeof value === "string");
  });
}

/** Returns the members that are not known as text, sealed or free in answers, at any depth. */
export function returnedMembers(returned: Returned): readonly ReturnedMember[] {
  return walk(returned).found;
}

function walk(returned: Returned): Pick<Walk, "found" | "marks"> {
  const shortened = new Walk(returned, false);
  if (!shortened.isUnsure) return shortened;
  const whole = returned.inFull();
  if (isObject(whole)) return new Walk({ ...returned, object: whole }, true);
  return { ...shortened, found: shortened.found.map((each) => ({ ...each, refersOutside: true })) };
}

/** Ids that answers state for themselves, and numbers of Mistral's search results. They refer to nothing else. */
const answerIds: ReadonlySet<string> = new Set(["id", "call_id", "tool_call_id", "tool_use_id", "reference_ids"]);

/** Notes of gateways on a text. Their ids and addresses are sources that no gateway reads again. */
const notes: ReadonlySet<string> = new Set(["annotations", "citations", "logprobs"]);

/** Largest depth that is compared with a shape. No answer has more. */
const depthMax = 16;

class Walk {
  readonly found: ReturnedMember[] = [];
  /** Objects that mark a part of the prompt for a cache. */
  readonly marks: JsonObject[] = [];
  isUnsure = false;
  readonly #isWhole: boolean;
  readonly #names: readonly string[];
  #name = "";

  constructor({ object, path, shape, isRead, fields }: Returned, isWhole: boolean) {
    this.#isWhole = isWhole;
    this.#names = Object.keys(shape.members);
    for (const name in object) {
      if (isRead(name)) continue;
      this.#name = name;
      const known = shape.members[name] ?? (fields?.meaningOf(name) === "free" ? "free" : undefined);
      this.#member(`${path}.${name}`, name, object[name], known, 0);
    }
  }

  #member(path: string, name: string, value: unknown, known: Known | undefined, depth: number): void {
    if (value === null || value === undefined || value === "") return;
    if (name === "cache_control") return void this.marks.push({ [name]: value });
    if (typeof known === "object") return this.#shaped(path, name, value, known, depth);
    if (known === undefined) return this.#unknown(path, name, value);
    if (known === "json" || notes.has(name)) return;
    const isId = known === "free" && !answerIds.has(name) && /(?:^|_)ids?$/.test(name);
    if (known === "media" || isId || (typeof value === "object" && this.#refersOutside("", value)))
      this.#add(path, true);
  }

  #shaped(path: string, name: string, value: unknown, shape: Shape, depth: number): void {
    if (depth > depthMax) this.#add(path, true);
    else if (Array.isArray(value)) for (const each of value) this.#shaped(path, name, each, shape, depth + 1);
    else if (isObject(value)) {
      for (const inner in value) this.#member(`${path}.${inner}`, inner, value[inner], shape.members[inner], depth + 1);
    } else if (typeof value === "string") this.#member(path, name, value, shape.string, depth);
    else if (value !== null) this.#unknown(path, name, value);
  }

  #unknown(path: string, name: string, value: unknown): void {
    // In another letter case, a gateway may read it as a known member, such as the type of an item.
    const isVariant = this.#names.some((known) => equalFolded(known, name));
    this.#add(path, isVariant || this.#refersOutside(name, value));
  }

  #add(path: string, refersOutside: boolean): void {
    this.found.push({ path, name: this.#name, refersOutside });
  }

  /** Returns true if a value or a name in it may refer to content outside the body, or is content of another kind. */
  #refersOutside(name: string, value: unknown): boolean {
    const open: [name: string, value: unknown][] = [[name, value]];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const [at, inner] = next;
      if (inner === null || inner === "" || typeof inner === "boolean") continue;
      if (isReferenceName(at)) return true;
      if (typeof inner === "string") {
        if (!this.#isWhole && mayBeShortened(inner)) this.isUnsure = true;
        else if (isReference(inner)) return true;
      } else if (Array.isArray(inner)) for (const each of inner) open.push([at, each]);
      else if (isObject(inner)) {
        for (const each in inner) {
          if (isReference(each)) return true;
          open.push([each, inner[each]]);
        }
      }
    }
    return false;
  }
}

/** Words that end the name of a reference: `fileId`, `image_url`, `$ref`. */
const pointers: ReadonlySet<string> = new Set(
  (
    "id ids uid uuid guid url urls uri uris ref refs reference references href link links location path pointer handle " +
    "key keys arn"
  ).split(" "),
);

/** Words that end like a reference, but are none. */
const otherWords: ReadonlySet<string> = new Set([
  "valid",
  "invalid",
  "void",
  "avoid",
  "paid",
  "solid",
  "hybrid",
  "grid",
]);

/** Content that is not text, or is stored elsewhere. Its bytes do not bound its tokens. */
const content =
  /file|doc|container|image|img|photo|picture|audio|video|voice|sound|media|mime|b64|base64|blob|attach|asset|upload|resource|vector|store|cache|conversation|previous|thread|dataset|corpus|knowledge|inline_?data/i;

/** Returns true for a name of content whose bytes do not bound its tokens, such as the type `input_file`. */
export function isContentName(name: string): boolean {
  return content.test(name);
}

function isReferenceName(name: string): boolean {
  if (isContentName(name)) return true;
  const words = name
    .replaceAll(/([a-z\d])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/)
    .filter((word) => word !== "");
  const last = words.at(-1) ?? "";
  return pointers.has(last) || (/(?:ur[il]|id)s?$/.test(last) && !otherWords.has(last));
}

/** Returns true for an address, a data URL, or an id that a gateway gives to stored content. */
function isReference(text: string): boolean {
  return (
    /^\s*(?:[a-z][a-z\d+.-]{0,30}:\/\/|(?:https?|gs|s3|file|data|blob|urn|arn):)/i.test(text) ||
    /^(?:file|vs|cntr|container|upload|asst|thread|resp|cachedContents)[-_/][a-z\d]{8,}/i.test(text)
  );
}
