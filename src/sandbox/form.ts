import type { Call } from "./call.ts";
import { marker, readBody, type Fields } from "./chat-request.ts";

export interface Form {
  readonly model: string;
  readonly fields: Fields;
  /** Scenario that a field states. */
  readonly scenario: string | undefined;
  readonly files: readonly { readonly name: string; readonly bytes: Buffer }[];
}

/**
 * Reads a JSON or form body. Returns an error message if the body is not valid or names no model. `marked` is the field
 * that may state a scenario.
 */
export function readForm({ head, seen }: Call, marked: string): Form | string {
  const [, boundary] = /boundary="?([^";]+)/.exec(head.headers["content-type"] ?? "") ?? [];
  if (boundary === undefined) {
    const fields = readBody(seen.body);
    return typeof fields === "string"
      ? fields
      : { model: fields.model, fields, scenario: marker(fields[marked]), files: [] };
  }
  const fields: Record<string, string> = {};
  const files: { name: string; bytes: Buffer }[] = [];
  for (const part of partsOf(seen.body, `--${boundary}`)) {
    const end = part.indexOf("\r\n\r\n");
    const headers = part.toString("utf8", 0, Math.max(end, 0));
    const [, quoted, bare = ""] = /; *name=(?:"([^"]*)"|([^;\s]*))/i.exec(headers) ?? [];
    const name = quoted ?? bare;
    const bytes = part.subarray(end + 4);
    if (/filename/.test(headers)) files.push({ name, bytes });
    else fields[name] = bytes.toString("utf8");
  }
  const { model = "" } = fields;
  if (model === "") return "you must provide a model parameter";
  return { model, fields, scenario: marker(fields[marked]), files };
}

function* partsOf(body: Buffer, delimiter: string): Generator<Buffer> {
  let start = body.indexOf(delimiter);
  while (start !== -1) {
    const from = start + delimiter.length + 2;
    const end = body.indexOf(`\r\n${delimiter}`, from - 2);
    if (end === -1) return;
    yield body.subarray(from, end);
    start = end + 2;
  }
}
