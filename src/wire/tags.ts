import type { Refusal } from "../core/refusals.ts";
import type { RunSession } from "../core/run-sessions.ts";
import { isTagName, runSessionOf, sessionTag, tagsMax, tagValueBytesMax } from "../core/tags.ts";

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

/** The tags of a request: those of its session of `farebox run` cannot be changed, and no one else has them. */
export function readPinnedTags(header: string | undefined, session: RunSession | undefined): TagsResult {
  const read = readTags(header);
  if (!read.ok) return read;
  const { tags } = read;
  if (session === undefined)
    return runSessionOf(tags) === null
      ? read
      : refused(`the tag ${sessionTag}=${runSessionOf(tags)} is for requests with that session's own credential`);
  const pinned: Readonly<Record<string, string>> = { ...session.tags, [sessionTag]: session.id };
  const changed = Object.keys(pinned).find((name) => Object.hasOwn(tags, name) && tags[name] !== pinned[name]);
  if (changed !== undefined)
    return refused(`this session has the tag ${changed}=${pinned[changed]}, which no request changes`);
  const all = { ...tags, ...pinned };
  const count = Object.keys(all).length;
  return count > tagsMax
    ? refused(`a request has at most ${tagsMax} tags, and with those of its session this one has ${count}`)
    : { ok: true, tags: all };
}

function malformed(): TagsResult {
  const message = `x-farebox-tag takes up to ${tagsMax} 'name=value' pairs with commas between them, each name once; names of up to 63 of a-z, 0-9, '.', '_' and '-', values of 1 to ${tagValueBytesMax} bytes without a comma`;
  return refused(message);
}

function refused(message: string): TagsResult {
  return { ok: false, refusal: { code: "invalid_request", param: null, message } };
}
