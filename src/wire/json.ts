import { jsonSkeleton } from "./json-skeleton.ts";

/** Looking into JSON of unknown shape without trusting it. */
export type JsonObject = { readonly [name: string]: unknown };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object, or an empty one in place of anything else. */
export function objectOr(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** The list, or an empty one in place of anything else. */
export function listOr(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The text, or an empty one in place of anything else: `String` throws for an object whose own `toString` is no function. */
export function textOr(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** The value as JSON; undefined where it is nested deeper than the stack. */
export function jsonOf(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}

/** Shorter texts are parsed at once, whatever they are. */
const cheapUnits = 64 * 1024;

/** The parsed value; undefined where the text is no JSON, or hardly anything but structure, beyond `jsonBounds`. */
export function parseJson(text: string): unknown {
  if (text.length > cheapUnits && jsonSkeleton(Buffer.from(text)) === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
