import type { Refusal } from "../core/refusals.ts";
import { isTagName, tagsMax, tagValueBytesMax } from "../core/tags.ts";

export type TagsResult =
  | { readonly ok: true; readonly tags: Readonly<Record<string, string>> }
  | { readonly ok: false; readonly refusal: Refusal };

/** Reads `x-farebox-tag: name=value, name=value`: up to 8 tags, which attribute the charge. */
export function readTags(header: string | undefined): TagsResult {
  if (header === undefined || header.trim() === "") return { ok: true, tags: {} };
  const tags = new Map<string, string>();
  for (const piece of header.split(",")) {
    const equals = piece.indexOf("=");
    const name = piece.slice(0, equals === -1 ? undefined : equals).trim();
    const value = equals === -1 ? "" : piece.slice(equals + 1).trim();
    if (!isTagName(name) || value === "" || Buffer.byteLength(value) > tagValueBytesMax) return malformed();
    if (tags.has(name)) return malformed();
    tags.set(name, value);
  }
  return tags.size > tagsMax ? malformed() : { ok: true, tags: Object.fromEntries(tags) };
}

function malformed(): TagsResult {
  const message = `x-farebox-tag takes up to ${tagsMax} 'name=value' pairs with commas between them, each name once; names of up to 63 of a-z, 0-9, '.', '_' and '-', values of 1 to ${tagValueBytesMax} bytes without a comma`;
  return { ok: false, refusal: { code: "invalid_request", param: null, message } };
}
