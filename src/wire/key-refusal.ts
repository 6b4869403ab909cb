import type { StatedError } from "../core/settlement.ts";
import { parseJson } from "./json.ts";
import { keyStatuses, saysKeyIsRefused } from "./key-words.ts";
import { readStatedError } from "./stated-error.ts";

/** Largest error that is read for words about the key, in bytes. */
export const errorBytesMax = 64 * 1024;

/** Longest error without JSON that is searched for words about the key, in UTF-16 units. */
const textUnitsMax = 2000;

/** Matches the first data line of an error that is sent as an event. */
const eventData = /^data:[ ]?(\{.*)$/m;

/**
 * Returns true if an answer with an error status says that the gateway does not accept the key. `isSureOfKey`: true if
 * a 401 can have no other cause. Otherwise, and for 400 and 403, the body must say so.
 */
export function refusesKey(status: number, body: Buffer | undefined, isSureOfKey: boolean): boolean {
  if (status === 401 && isSureOfKey) return true;
  if (!keyStatuses.has(status) || body === undefined || body.length > errorBytesMax) return false;
  const text = body.toString("utf8");
  const error = parseJson(text) ?? parseJson(eventData.exec(text)?.[1] ?? "");
  return typeof error === "object" && error !== null
    ? readStatedError({ error })?.refusesKey === true
    : text.length <= textUnitsMax && saysKeyIsRefused(text);
}

/** Returns true if an error in an answer with a success status says that the gateway does not accept the key. */
export function statesKeyRefusal(error: StatedError, isSureOfKey: boolean): boolean {
  return error.refusesKey === true || (isSureOfKey && error.kind === "refused" && error.status === 401);
}
