import { jsonElements, jsonMembers, parseJson } from "./json.ts";
import { isTaskId, tasksNamed } from "./task.ts";
import { equalFolded } from "./findings.ts";

/** Envelope members that reveal nothing of other keys' tasks, unlike totals. */
const envelopeNames = new Set(["code", "message", "msg", "success", "timestamp", "page", "page_size"]);

/** Lists nest no deeper in any answer that is known. */
const depthMax = 16;

/**
 * Returns an answer that lists tasks with the records of these tasks alone, each as it was written, in the lists that they are in.
 * Whatever else it states, totals among it, is left out beside its envelope.
 */
export function withOwnRecordsOnly(answer: Buffer, own: ReadonlySet<string>): string {
  return kept(answer, own, 0) ?? "{}";
}

/** Undefined for what is left out. */
function kept(value: Buffer, own: ReadonlySet<string>, depth: number): string | undefined {
  if (depth > depthMax) return undefined;
  const elements = jsonElements(value, Infinity);
  if (elements !== undefined) {
    const records = elements
      .map((element) => kept(element, own, depth + 1))
      .filter((element) => element !== undefined && element !== "{}" && element !== "[]");
    return `[${records.join(",")}]`;
  }
  if (value[0] !== "{".charCodeAt(0)) return undefined;
  const members = jsonMembers(value);
  if (members.some(({ name }) => equalFolded(name, "task_id")))
    return isOwn(value, own) ? value.toString("utf8") : undefined;
  const shown = members.flatMap(({ name, valueStart, valueEnd }) => {
    const text = envelopeNames.has(name) && depth < 2 ? plainText(value.subarray(valueStart, valueEnd)) : undefined;
    const inner = text ?? kept(value.subarray(valueStart, valueEnd), own, depth + 1);
    return inner === undefined ? [] : [`${JSON.stringify(name)}:${inner}`];
  });
  return `{${shown.join(",")}}`;
}

/** A number, a text or a flag, as it is written. */
function plainText(value: Buffer): string | undefined {
  const text = value.toString("utf8");
  return typeof parseJson(text) === "object" ? undefined : text;
}

/** Reports that a record, with all records in it, belongs only to these tasks. */
function isOwn(record: Buffer, own: ReadonlySet<string>): boolean {
  const ids = [...tasksNamed(record)];
  return ids.length > 0 && ids.every((id) => isTaskId(id) && own.has(id));
}
