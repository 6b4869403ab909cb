import type { HostedTools } from "../core/bounds.ts";
import { invalid, type OrRefused } from "../core/refusals.ts";
import { responseTools } from "./field-table.ts";
import type { RequestFields } from "./findings.ts";
import { replaced, withoutElements, withoutMembers } from "./json-edit.ts";
import {
  isObject,
  jsonElements,
  jsonSkeleton,
  listOr,
  objectOr,
  parseJson,
  textOr,
  valueAt,
  type JsonObject,
} from "./json.ts";
import { callOf, listedTools } from "./model-request.ts";

/** Returns true if an unbounded field of a request is a tool that runs at the gateway, or asks for one. */
export function isHostedTool(fields: RequestFields, tools: HostedTools | null, field: string): boolean {
  if (tools?.fields.includes(field) === true) return true;
  const meaning = fields.meaningOf(field);
  return typeof meaning === "object" && "expensive" in meaning && meaning.isTool === true;
}

/** Returns the name of a hosted tool for a header: "web_search" for "tools[3] (web_search)". */
export function toolName(field: string): string {
  return typed.exec(field)?.[1] ?? field;
}

const typed = / \((\w+)\)$/;
/** Path of an element: its list and its index. */
const element = /^(.+)\[(\d+)\]$/;

/**
 * Takes hosted tools out of a request. Removes the list `tools` with its choice if no tool remains. All other bytes stay
 * the same. `fields` are the tools, in the form of `HostedTools.fields`. Refuses a request that must call one of them.
 */
export function withoutTools(body: Buffer, fields: readonly string[]): OrRefused<{ readonly body: Buffer }> {
  const paths = fields.map((field) => field.replace(typed, ""));
  const skeleton = jsonSkeleton(body) ?? body;
  const request = objectOr(parseJson(skeleton.toString("utf8")));
  const listed = toolsOf(request);
  const removed = listed.filter(({ path }) => paths.includes(path)).map(({ tool }) => tool);
  const kept = listed.filter(({ path }) => !paths.includes(path)).map(({ tool }) => tool);
  const missing = missingChoice(request["tool_choice"], removed, kept);
  if (missing !== undefined)
    return invalid(
      "tool_choice",
      `'tool_choice' asks for ${missing}, but this key's requests are sent without hosted tools whose cost has no bound; choose another tool or leave 'tool_choice' out`,
    );
  const members = new Set(paths.filter((path) => !element.test(path)));
  return { ok: true, body: withoutMembers(withoutListed(body, paths, members), members) };
}

function toolsOf(request: JsonObject) {
  return [
    ...listedTools(request["tools"], "tools", responseTools),
    ...listOr(request["input"]).flatMap((item, index) =>
      listedTools(objectOr(item)["tools"], `input[${index}].tools`, responseTools),
    ),
  ];
}

/** Removes the tools at these paths from their lists. Adds members that must be removed too to `members`. */
function withoutListed(body: Buffer, paths: readonly string[], members: Set<string>): Buffer {
  const lists = new Map<string, Set<number>>();
  for (const path of paths) {
    const [, list, index] = element.exec(path) ?? [];
    if (list === undefined) continue;
    const indexes = lists.get(list) ?? new Set();
    lists.set(list, indexes.add(Number(index)));
  }
  let whole = body;
  // A list within another list first, so that the paths of the others stay valid.
  for (const [path, indexes] of [...lists].sort(([one], [other]) => depthOf(other) - depthOf(one))) {
    const span = spanOf(whole, path);
    if (span === undefined) continue;
    const list = whole.subarray(span.start, span.end);
    const elements = jsonElements(list, Infinity);
    const isEmptied = elements === undefined || elements.length === indexes.size;
    if (isEmptied && path === "tools") for (const name of emptied(whole)) members.add(name);
    else {
      const remaining = isEmptied ? Buffer.from("[]") : withoutElements(list, indexes);
      whole = replaced(whole, span.start, span.end, remaining);
    }
  }
  return whole;
}

function depthOf(path: string): number {
  return path.split("[").length;
}

/** Returns the members to remove with the last tool. Chat completions refuse the others without tools. */
function emptied(body: Buffer): string[] {
  const choice = valueAt(body, ["tool_choice"]);
  const stated = choice && parseJson(body.toString("utf8", choice.valueStart, choice.valueEnd));
  const isFree = stated === undefined || stated === null || freeChoices.has(choiceName(stated));
  return ["tools", "parallel_tool_calls", ...(isFree ? ["tool_choice"] : [])];
}

/** Returns the position of the value at a path such as "input[3].tools"; undefined if there is none. */
function spanOf(body: Buffer, path: string): { readonly start: number; readonly end: number } | undefined {
  let [start, end] = [0, body.length];
  for (const step of path.match(/[^.[\]]+/g) ?? []) {
    const bytes = body.subarray(start, end);
    const index = /^\d+$/.test(step) ? Number(step) : null;
    const found = index === null ? valueAt(bytes, [step]) : elementAt(bytes, index);
    if (found === undefined) return undefined;
    [start, end] = [start + found.valueStart, start + found.valueEnd];
  }
  return { start, end };
}

function elementAt(list: Buffer, index: number) {
  const found = jsonElements(list, index + 1)?.[index];
  if (found === undefined) return undefined;
  const valueStart = found.byteOffset - list.byteOffset;
  return { valueStart, valueEnd: valueStart + found.length };
}

/** Choices that a request without tools may have lost. */
const freeChoices: ReadonlySet<string> = new Set(["auto", "none"]);
/** Choices by which the model must call some tool. */
const requiringChoices: ReadonlySet<string> = new Set(["required", "any"]);

function choiceName(choice: unknown): string {
  return textOr(isObject(choice) ? choice["type"] : choice);
}

/**
 * Returns the name of a removed tool for which a choice asks, or "a tool" if it requires any and none remains; undefined
 * if the choice can be met.
 */
function missingChoice(
  choice: unknown,
  removed: readonly JsonObject[],
  kept: readonly JsonObject[],
): string | undefined {
  const name = choiceName(choice);
  if (removed.length === 0 || freeChoices.has(name)) return undefined;
  if (requiringChoices.has(name)) return kept.length === 0 ? "a tool" : undefined;
  const { tools, allowed_tools: allowed } = objectOr(choice);
  const chosen = [
    isObject(choice) ? choice : { type: choice },
    ...listOr(tools),
    ...listOr(objectOr(allowed)["tools"]),
  ];
  const missing = chosen
    .map(objectOr)
    .find((one) => removed.some((tool) => isChosen(one, tool)) && !kept.some((tool) => isChosen(one, tool)));
  return missing && textOr(missing["name"] ?? missing["server_label"] ?? missing["type"]);
}

/** Returns true if a choice means a tool: by the label of its server, by its name, or by its type. */
function isChosen(choice: JsonObject, tool: JsonObject): boolean {
  for (const member of ["server_label", "name"]) {
    if (typeof choice[member] === "string") return choice[member] === tool[member];
  }
  return typeof choice["type"] === "string" && (choice["type"] === tool["type"] || callOf(choice) === callOf(tool));
}
