import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument, type Document, type Node } from "yaml";
import type { z } from "zod";
import type { Fault } from "./fault.ts";
import { priceFileSchema, type PriceFile } from "./schema.ts";

export type Path = readonly (string | number)[];

/** A price file as it was read. Parts at which a fault was found may have any shape: ask `intact` first. */
export interface ReadFile {
  readonly name: string;
  readonly value: PriceFile;
  readonly faults: readonly Fault[];
  /** Whether no fault was found at this path or below it. */
  intact(path: Path): boolean;
  /** A fault at a value, or at its key where the value is a block, a list or missing. */
  faultAt(path: Path, message: string): Fault;
}

/** Reads one file's text and checks its shape; pure, and total over any text. */
export function readPriceFile(name: string, text: string): ReadFile {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false, version: "1.2" });
  const at = (offset: number, message: string): Fault => {
    const { line, col } = counter.linePos(offset);
    return { file: name, line: Math.max(line, 1), column: Math.max(col, 1), message };
  };
  const faultAt = (path: Path, message: string): Fault => at(offsetOf(document, path, "value"), message);
  const faultAtKey = (path: Path, message: string): Fault => at(offsetOf(document, path, "key"), message);
  const syntax = [...document.errors, ...document.warnings];
  const faults = syntax.map((error) => at(error.pos[0], syntaxMessage(error.code, error.message)));
  const raw = faults.length > 0 ? undefined : plainValue(document, faults, at);
  if (faults.length > 0) return { name, value: {}, faults, intact: () => false, faultAt };

  const value = (raw ?? {}) as PriceFile;
  const checked = priceFileSchema.safeParse(value);
  const issues = checked.success ? [] : checked.error.issues;
  const broken = issues.flatMap(brokenPaths);
  return {
    name,
    value,
    faults: issues.flatMap((issue) => explain(issue, document, faultAt, faultAtKey)),
    intact: (path) => broken.every((other) => !onOneLine(other, path)),
    faultAt,
  };
}

/** YAML aliases that multiply without end, and other things that only show when the value is built. */
function plainValue(document: Document, faults: Fault[], at: (offset: number, message: string) => Fault): unknown {
  try {
    return document.toJS({ maxAliasCount: 10_000 });
  } catch (error) {
    faults.push(at(0, `cannot be read as YAML: ${error instanceof Error ? error.message : String(error)}`));
    return undefined;
  }
}

function syntaxMessage(code: string, message: string): string {
  if (code === "DUPLICATE_KEY") return "stated twice in one block; keep one of them";
  if (code === "MULTIPLE_DOCS") return "a price file holds one document; remove the `---` between them";
  return `not YAML: ${message}`;
}

/** An unknown field breaks itself and so all that it is within, not its neighbours. */
function brokenPaths(issue: z.core.$ZodIssue): Path[] {
  const path = issue.path as Path;
  return issue.code === "unrecognized_keys" ? issue.keys.map((key) => [...path, key]) : [path];
}

/** Whether one of the paths leads through the other. */
function onOneLine(a: Path, b: Path): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  return short.every((step, index) => long[index] === step);
}

type FaultAt = ReadFile["faultAt"];

/** A finding of the schema in words, at the place that is to be changed. */
function explain(issue: z.core.$ZodIssue, document: Document, faultAt: FaultAt, faultAtKey: FaultAt): Fault[] {
  const path = issue.path as Path;
  if (issue.code === "unrecognized_keys") {
    const sentences = issue.message.split("\n");
    return issue.keys.map((key, index) => faultAtKey([...path, key], sentences[index] ?? issue.message));
  }
  if (issue.code === "invalid_key") {
    return [faultAtKey(path, `"${String(path.at(-1))}" is not a name here; write ${issue.issues[0]?.message ?? "another"}`)];
  }
  const node = nodeAt(document, path);
  const field = String(path.at(-1) ?? "file");
  if (node === undefined) return [faultAt(path.slice(0, -1), `"${field}" is missing; write ${issue.message}`)];
  const unquoted = isScalar(node) && typeof node.value === "number" && issue.code === "invalid_type";
  const decimalWanted = unquoted && issue.message.includes("in quotes");
  if (decimalWanted) return [faultAt(path, `write it in quotes, "${node.source ?? String(node.value)}": ${issue.message}`)];
  return [faultAt(path, `"${field}": write ${issue.message}`)];
}

interface Step {
  /** Where the step's name is written; for an item of a list, where the item begins. */
  readonly keyOffset: number;
  readonly node: Node | null;
}

function stepInto(document: Document, node: unknown, step: string | number): Step | undefined {
  const block = isAlias(node) ? node.resolve(document) : node;
  if (isMap(block)) {
    const pair = block.items.find(({ key }) => isScalar(key) && String(key.value) === String(step));
    if (pair === undefined || !isScalar(pair.key)) return undefined;
    return { keyOffset: pair.key.range?.[0] ?? 0, node: pair.value as Node | null };
  }
  if (isSeq(block)) {
    const item = block.items[Number(step)] as Node | undefined;
    return item === undefined ? undefined : { keyOffset: item.range?.[0] ?? 0, node: item };
  }
  return undefined;
}

/** Undefined where nothing is written. */
function nodeAt(document: Document, path: Path): Node | null | undefined {
  let node: Node | null | undefined = document.contents;
  for (const step of path) {
    const found = stepInto(document, node, step);
    if (found === undefined) return undefined;
    node = found.node;
  }
  return node;
}

/** Where the path's value (or its key, where that is a block, a list or nothing) is written, as near as the file goes. */
function offsetOf(document: Document, path: Path, part: "key" | "value"): number {
  let node: Node | null = document.contents;
  let offset = node?.range?.[0] ?? 0;
  for (const step of path) {
    const found = stepInto(document, node, step);
    if (found === undefined) return offset;
    offset = found.keyOffset;
    node = found.node;
  }
  const written = part === "value" && isScalar(node) && node.source !== "" ? node.range?.[0] : undefined;
  return written ?? offset;
}
