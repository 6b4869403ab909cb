import type { Call } from "./call.ts";
import { readBody, type Fields } from "./chat-request.ts";

export interface Form {
  readonly fields: Fields & { readonly model: string };
  readonly files: readonly { readonly name: string; readonly bytes: Buffer }[];
}

/** Reads a whole body in JSON or as a form; returns the error message as a text. */
export function readForm({ head, seen }: Call): Form | string {
  const [, boundary] = /boundary="?([^";]+)/.exec(head.headers["content-type"] ?? "") ?? [];
  if (boundary === undefined) {
    const fields = readBody(seen.body);
    return typeof fields === "string" ? fields : { fields, files: [] };
  }
  const fields: Record<string, string> = {};
  const files: { name: string; bytes: Buffer }[] = [];
  for (const part of partsOf(seen.body, `--${boundary}`)) {
    const end = part.indexOf("\r\n\r\n");
    const headers = part.toString("utf8", 0, Math.max(end, 0));
    const name = /name="([^"]*)"/.exec(headers)?.[1] ?? "";
    const bytes = part.subarray(end + 4);
    if (/filename/.test(headers)) files.push({ name, bytes });
    else fields[name] = bytes.toString("utf8");
  }
  const { model = "" } = fields;
  return model === "" ? "you must provide a model parameter" : { fields: { ...fields, model }, files };
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
