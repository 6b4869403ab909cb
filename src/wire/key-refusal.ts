import type { StatedError } from "../core/settlement.ts";
import { parseJson } from "./json.ts";
import { keyStatuses, saysKeyIsRefused } from "./key-words.ts";
import { readStatedError } from "./stated-error.ts";

/** Largest error that is read for words about the key, in bytes. */
export const errorBytesMax = 64 * 1024;

/** Longest error without JSON that is compared with the words, in UTF-16 units. */
const textUnitsMax = 2000;

/** First data of an error that is sent as an event. */
const eventData = /^data:[ ]?(\{.*)$/m;

/**
 * Returns true if an answer with an error status says that the gateway does not accept the key. `isSure`: true if a 401
 * can have no other cause. Otherwise, and for 400 and 403, the body must say so.
 */
export function refusesKey(status: number, body: Buffer | undefined, isSure: boolean): boolean {
  if (status === 401 && isSure) return true;
  if (!keyStatuses.has(status) || body === undefined || body.length > errorBytesMax) return false;
  const text = body.toString("utf8");
  const error = parseJson(text) ?? parseJson(eventData.exec(text)?.[1] ?? "");
  return typeof error === "object" && error !== null
    ? readStatedError({ error })?.refusesKey === true
    : text.length <= textUnitsMax && saysKeyIsRefused(text);
}

/** Returns true if an error in an answer with a success status says that the gateway does not accept the key. */
export function statesKeyRefusal({ kind, status, refusesKey: says }: StatedError, isSure: boolean): boolean {
  return says === true || (isSure && kind === "refused" && status === 401);
}
