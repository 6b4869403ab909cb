import type { z } from "zod";
import { meantValue, nearest } from "../../../core/fault.ts";
import type { Refusal } from "../../../core/refusals.ts";
import type { Exchange } from "../../../ports/exchange.ts";
import { isObject, jsonMembers, parseJson } from "../../../wire/json.ts";

type Read<T, R = Refusal> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly refusal: R };

/** Reads the parameters of a query. Refuses a parameter that is given twice. */
export function readQuery(query: string, schema: z.ZodObject | null): Read<unknown> {
  const given = new URLSearchParams(query);
  const names = [...given.keys()];
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) return invalid(`The parameter '${shown(twice)}' is given twice.`, twice);
  if (schema !== null) return readFields(schema, Object.fromEntries(given), "parameter");
  const [first] = names;
  return first === undefined
    ? { ok: true, value: {} }
    : invalid(`There is no parameter '${shown(first)}': this path has no parameters.`, first);
}

/** Reads a body. If `schema` is null, refuses every body. The returned refusal is null if the client disconnected. */
export async function readBody(
  exchange: Exchange,
  schema: z.ZodObject | null,
  bytesMax: number,
): Promise<Read<unknown, Refusal | null>> {
  const read = await exchange.readBody(bytesMax);
  if (!read.ok) {
    const { refusal } = read;
    // No setting changes the size limit of these bodies.
    if (refusal?.code === "request_too_large") return { ok: false, refusal: { ...refusal, setting: null } };
    return { ok: false, refusal };
  }
  try {
    if (schema === null)
      return read.bytes.length === 0
        ? { ok: true, value: undefined }
        : invalid("This request must not have a body.", null);
    if (read.bytes.length === 0) return readFields(schema, {}, "body");
    return readJsonBody(read.bytes.whole, exchange.header("content-type"), schema);
  } finally {
    read.release();
  }
}

function readJsonBody(bytes: Buffer, contentType: string | undefined, schema: z.ZodObject): Read<unknown> {
  if (!/^application\/json *(;|$)/i.test(contentType ?? "")) {
    return { ok: false, refusal: { code: "unsupported_media_type", contentType: shown(contentType ?? "") } };
  }
  const value = parseJson(bytes.toString("utf8"));
  if (value === undefined) return { ok: false, refusal: { code: "invalid_json", message: "The body is not JSON." } };
  if (!isObject(value)) return invalid("The body must be a JSON object.", null);
  const names = jsonMembers(bytes).map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) return invalid(`The field '${shown(twice)}' is given twice.`, twice);
  return readFields(schema, value, "field");
}

/** Validates an input. The refusal names the first invalid field, but never contains the field's value. */
function readFields(schema: z.ZodObject, given: object, noun: "parameter" | "field" | "body"): Read<unknown> {
  const result = schema.safeParse(given, { reportInput: true });
  if (result.success) return { ok: true, value: result.data };
  // Unknown names are reported first, because one may be a misspelled required name.
  const { issues } = result.error;
  const issue = issues.find(({ code }) => code === "unrecognized_keys") ?? issues[0];
  if (issue?.code === "unrecognized_keys") return unknownField(schema, issue.path, issue.keys[0] ?? "", noun);
  const field = issue?.path.map(String).join(".") ?? "";
  if (isMissing(given, issue?.path ?? []))
    return invalid(`The ${noun === "body" ? "field" : noun} '${field}' is required.`, field);
  const problem = issue === undefined ? "is malformed" : `${issue.message}${meantValue(issue)}`;
  return invalid(
    `${field === "" ? "This" : `'${field}'`} ${problem}${problem.endsWith("?") ? "" : "."}`,
    field === "" ? null : field,
  );
}

function unknownField(schema: z.ZodObject, path: readonly PropertyKey[], unknown: string, noun: string): Read<never> {
  const field = [...path.map(String), unknown].join(".");
  const [near] = nearest(unknown, Object.keys(objectAt(schema, path)?.shape ?? {}));
  return invalid(
    `There is no ${noun} '${shown(field)}'${near === undefined ? "." : `; did you mean '${near}'?`}`,
    field,
  );
}

/** Returns the object schema at a path. Unwraps optional schemas. */
function objectAt(schema: z.ZodObject, path: readonly PropertyKey[]): z.ZodObject | undefined {
  let here: unknown = schema;
  for (const step of path) {
    here = bare((here as z.ZodObject).shape?.[String(step)]);
    if (!hasShape(here)) return undefined;
  }
  return here as z.ZodObject;
}

function bare(schema: unknown): unknown {
  let here = schema as { readonly unwrap?: () => unknown } | undefined;
  while (here !== undefined && !hasShape(here) && typeof here.unwrap === "function")
    here = here.unwrap() as typeof here;
  return here;
}

function hasShape(schema: unknown): boolean {
  return typeof schema === "object" && schema !== null && "shape" in schema;
}

function isMissing(given: object, path: readonly PropertyKey[]): boolean {
  let here: unknown = given;
  for (const step of path) here = isObject(here) ? here[String(step)] : undefined;
  return path.length > 0 && here === undefined;
}

function invalid(message: string, param: string | null): Read<never> {
  return { ok: false, refusal: { code: "invalid_request", message, param: param && shown(param) } };
}

/** Shortens a name from the request. Hides the text if it may contain a secret. */
function shown(text: string): string {
  if (/sk-[\w-]{8,}/.test(text)) return "<hidden>";
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
