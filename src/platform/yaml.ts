import { createRequire } from "node:module";
import { load } from "js-yaml";
import type * as Yaml from "yaml";
import type { Document, Node } from "yaml";
import type { z } from "zod";
import { meantValue, messageOf, nearest, type Fault } from "../core/fault.ts";
import type { Path, ReadYaml } from "../ports/yaml.ts";

const require = createRequire(import.meta.url);
/** Loads the parser that reports positions. Only files with a fault or with unusual syntax need it. */
const yaml = () => require("yaml") as typeof Yaml;

/** Kind of a file and its schema. All fields of the schema are optional, so that an empty file is valid. */
interface YamlKind<S extends z.ZodType> {
  /** Name of the kind in messages, such as "a price file". */
  readonly noun: string;
  readonly schema: S;
}

/**
 * Reads one file's text and checks its shape. Pure, and never throws for any text. The schema must not transform
 * values. Each `error` of the schema completes the sentence "write …". The error for unknown fields does not: it is the
 * text that `unknownFields` in `core/fault.ts` returns.
 */
export function readYaml<S extends z.ZodType>(name: string, text: string, kind: YamlKind<S>): ReadYaml<z.output<S>> {
  const value = readPlain(text);
  if (value === undefined || !kind.schema.safeParse(value).success) return readWithPositions(name, text, kind);
  let positioned: ReadYaml | null = null;
  return {
    name,
    value: value as z.output<S>,
    faults: [],
    isRemoved: () => false,
    isWhole: () => true,
    removedIn: () => [],
    isMisspelled: () => false,
    faultAt: (path, message) => (positioned ??= readWithPositions(name, text, kind)).faultAt(path, message),
  };
}

/**
 * Matches tags, directives, several documents, and names with a meaning in JavaScript. Files with a match need
 * `readWithPositions`.
 */
const unusual = /(?:^|[\s,:[{?-])(?:!|\?\s)|^(?:%|---|\.\.\.)|__proto__/m;

/**
 * Returns the value of a file without unusual syntax or faults; undefined for other files. Takes a tenth of the time of
 * `readWithPositions`.
 */
function readPlain(text: string): object | undefined {
  if (unusual.test(text)) return undefined;
  try {
    const value: unknown = load(text) ?? {};
    return typeof value === "object" && countValues(value, 0) <= valuesMax ? (value as object) : undefined;
  } catch {
    return undefined;
  }
}

/** Largest number of values in a file. Nested aliases could otherwise expand beyond the available memory. */
const valuesMax = 1_000_000;

/**
 * Adds the number of nested values to `before`, and stops when there are too many.
 * Returns Infinity for a key "null", because the two parsers name a null key differently.
 */
function countValues(value: unknown, before: number): number {
  let count = before + 1;
  if (typeof value !== "object" || value === null) return count;
  if (Object.hasOwn(value, "null")) return Infinity;
  for (const member of Object.values(value)) {
    if (count > valuesMax) break;
    count = countValues(member, count);
  }
  return count;
}

/** Reads the text with the position of each value, for faults. */
function readWithPositions<S extends z.ZodType>(
  name: string,
  text: string,
  { noun, schema }: YamlKind<S>,
): ReadYaml<z.output<S>> {
  const empty = {} as z.output<S>;
  const counter = new (yaml().LineCounter)();
  const document = yaml().parseDocument(text, {
    lineCounter: counter,
    prettyErrors: false,
    logLevel: "error",
    version: "1.2",
  });
  const at = (offset: number, message: string): Fault => {
    const { line, col } = counter.linePos(offset);
    return { file: name, line: Math.max(line, 1), column: Math.max(col, 1), message };
  };
  const faultAt = (path: Path, message: string): Fault => at(offsetOf(document, path, "value"), message);
  const faultAtKey = (path: Path, message: string): Fault => at(offsetOf(document, path, "key"), message);
  const syntax = [...document.errors, ...document.warnings];
  // Later syntax errors are mostly consequences of the first one.
  const [first] = syntax.filter(({ code }) => code !== "DUPLICATE_KEY").sort((a, b) => a.pos[0] - b.pos[0]);
  const faults = (first ? [first] : syntax).map(({ code, message, pos: [offset] }) =>
    at(offset, code === "DUPLICATE_KEY" ? statedTwice(document, offset) : syntaxMessage(code, message, noun)),
  );
  const readable = syntax.every(({ code }) => code === "DUPLICATE_KEY");
  if (syntax.length > 0) keepFirst(document);
  const raw = readable ? plainValue(document, (message) => faults.push(at(0, message))) : unreadable;
  if (raw === unreadable)
    return {
      name,
      value: empty,
      faults,
      isRemoved: () => true,
      isWhole: () => false,
      removedIn: () => [],
      isMisspelled: () => false,
      faultAt,
    };

  const value = raw ?? {};
  const checked = schema.safeParse(value, { reportInput: true });
  const issues = checked.success ? [] : checked.error.issues;
  const unknown = issues.flatMap(unknownKeys);
  const isMisspelled = (path: Path, field: string) =>
    unknown.some(
      (other) =>
        isPrefix(other.path, path) && other.path.length === path.length && nearest(other.key, [field]).length > 0,
    );
  const broken = issues.flatMap(brokenPaths);
  return {
    name,
    // Faults are explained from the document, which `cutOut` does not change.
    faults: [...faults, ...issues.flatMap((issue) => explain(issue, document, { faultAt, faultAtKey, isMisspelled }))],
    value: broken.some((path) => path.length === 0) ? empty : (cutOut(value, broken) as z.output<S>),
    isRemoved: (path) => broken.some((other) => isPrefix(other, path)),
    isWhole: (path) => !broken.some((other) => isPrefix(path, other) || isPrefix(other, path)),
    removedIn: (path) =>
      broken
        .filter((other) => other.length === path.length + 1 && isPrefix(path, other))
        .map((other) => String(other.at(-1))),
    isMisspelled,
    faultAt,
  };
}

/** Keeps only the first entry for each name in a block, so that the rest of the file can be read. */
function keepFirst(document: Document): void {
  yaml().visit(document, {
    Map(_, map) {
      const names = new Set<string>();
      map.items = map.items.filter(({ key }) => {
        const name = yaml().isScalar(key) ? String(key.value) : "";
        return !yaml().isScalar(key) || (!names.has(name) && names.add(name));
      });
    },
  });
}

const unreadable = Symbol("unreadable");

/**
 * Returns the document's value. Reports faults that appear only at this step, such as aliases that expand without
 * limit, and then returns `unreadable`.
 */
function plainValue(document: Document, report: (message: string) => void): unknown {
  try {
    return document.toJS({ maxAliasCount: 10_000 });
  } catch (error) {
    report(`cannot be read as YAML: ${messageOf(error)}`);
    return unreadable;
  }
}

/**
 * Removes the values at these paths. A removed list item becomes undefined, so that the other items keep their indexes.
 */
function cutOut(value: unknown, paths: readonly Path[]): unknown {
  for (const path of paths) {
    let block: unknown = value;
    for (const step of path.slice(0, -1)) block = isBlock(block) ? block[step] : undefined;
    const last = path.at(-1);
    if (last === undefined || !isBlock(block)) continue;
    if (Array.isArray(block)) block[Number(last)] = undefined;
    else delete block[last];
  }
  return value;
}

function isBlock(value: unknown): value is Record<string | number, unknown> {
  return typeof value === "object" && value !== null;
}

function statedTwice(document: Document, offset: number): string {
  let name = "a field";
  yaml().visit(document, {
    Pair(_, { key }) {
      if (yaml().isScalar(key) && key.range?.[0] === offset) name = `"${String(key.value)}"`;
    },
  });
  return `${name} is stated twice in one block; keep one of them`;
}

function syntaxMessage(code: string, message: string, noun: string): string {
  if (code === "MULTIPLE_DOCS") return `${noun} must contain one document; remove the \`---\` between them`;
  // The name of a pattern, such as *-mini.
  if (code === "BAD_ALIAS") return "not YAML: write a name that begins with * in quotes";
  return `not YAML: ${message}`;
}

/** Returns the paths that an issue makes invalid. An unknown field does not affect the other fields of its block. */
function brokenPaths(issue: z.core.$ZodIssue): Path[] {
  const path = issue.path as Path;
  return issue.code === "unrecognized_keys" ? issue.keys.map((key) => [...path, key]) : [path];
}

function unknownKeys(issue: z.core.$ZodIssue): { path: Path; key: string }[] {
  return issue.code === "unrecognized_keys" ? issue.keys.map((key) => ({ path: issue.path as Path, key })) : [];
}

function isPrefix(start: Path, path: Path): boolean {
  return start.every((step, index) => path[index] === step);
}

interface Finder {
  readonly faultAt: ReadYaml["faultAt"];
  /** Returns a fault at the key, even if the path has a value. */
  readonly faultAtKey: ReadYaml["faultAt"];
  readonly isMisspelled: ReadYaml["isMisspelled"];
}

/** Turns an issue of the schema into faults at the text that the user must change. */
function explain(issue: z.core.$ZodIssue, document: Document, { faultAt, faultAtKey, isMisspelled }: Finder): Fault[] {
  const path = issue.path as Path;
  if (issue.code === "unrecognized_keys") {
    const sentences = issue.message.split("\n");
    return issue.keys.map((key, index) => faultAtKey([...path, key], sentences[index] ?? issue.message));
  }
  if (issue.code === "invalid_key") {
    return [
      faultAtKey(path, `"${String(path.at(-1))}" is not a valid name; write ${issue.issues[0]?.message ?? "another"}`),
    ];
  }
  const node = nodeAt(document, path);
  const field = String(path.at(-1));
  if (node === undefined) {
    const block = path.slice(0, -1);
    // A missing field may be a misspelled one, which is already reported as unknown.
    return isMisspelled(block, field) ? [] : [faultAt(block, `"${field}" is missing; write ${issue.message}`)];
  }
  const unquoted = yaml().isScalar(node) && typeof node.value === "number" && issue.code === "invalid_type";
  const decimalWanted = unquoted && issue.message.includes("in quotes");
  if (decimalWanted)
    return [faultAt(path, `write it in quotes, "${node.source ?? String(node.value)}": ${issue.message}`)];
  return [faultAt(path, `${subjectOf(path, node)} write ${issue.message}${meantValue(issue)}`)];
}

/** Returns the start of a sentence about a wrong value: `"from" is 01.12.2026;`, or `"groups":` for a block or list. */
function subjectOf(path: Path, node: Node | null): string {
  const last = path.at(-1);
  const what = last === undefined ? "the file" : typeof last === "number" ? `item ${last + 1}` : `"${last}"`;
  if (node !== null && !yaml().isScalar(node)) return `${what}:`;
  const { source = "", type } = node ?? {};
  if (source === "" && (type === undefined || type === "PLAIN")) return `${what} is empty;`;
  const text = source.length > shownMax ? `${source.slice(0, shownMax)}…` : source;
  return `${what} is ${type === "PLAIN" ? text : JSON.stringify(text)};`;
}

/** Most characters of a wrong value in a message. */
const shownMax = 40;

interface Step {
  /** Offset of the key, or of the list item. */
  readonly keyOffset: number;
  readonly node: Node | null;
}

function stepInto(document: Document, node: unknown, step: string | number): Step | undefined {
  const block = yaml().isAlias(node) ? node.resolve(document) : node;
  if (yaml().isMap(block)) {
    const pair = block.items.find(({ key }) => yaml().isScalar(key) && String(key.value) === String(step));
    if (pair === undefined || !yaml().isScalar(pair.key)) return undefined;
    return { keyOffset: pair.key.range?.[0] ?? 0, node: pair.value as Node | null };
  }
  if (yaml().isSeq(block)) {
    const item = block.items[Number(step)] as Node | undefined;
    return item === undefined ? undefined : { keyOffset: item.range?.[0] ?? 0, node: item };
  }
  return undefined;
}

/** Returns the node at a path; null for an empty value, undefined if the file does not contain the path. */
function nodeAt(document: Document, path: Path): Node | null | undefined {
  let node: Node | null | undefined = document.contents;
  for (const step of path) {
    const found = stepInto(document, node, step);
    if (found === undefined) return undefined;
    node = found.node;
  }
  return node;
}

/**
 * Returns the offset of a scalar value, or of the key if the value is a block, a list or empty.
 * Returns the nearest enclosing offset if the file does not contain the path.
 */
function offsetOf(document: Document, path: Path, part: "key" | "value"): number {
  let node: Node | null = document.contents;
  let offset = node?.range?.[0] ?? 0;
  for (const step of path) {
    const found = stepInto(document, node, step);
    if (found === undefined) return offset;
    offset = found.keyOffset;
    node = found.node;
  }
  const valueOffset = part === "value" && yaml().isScalar(node) && node.source !== "" ? node.range?.[0] : undefined;
  return valueOffset ?? offset;
}
