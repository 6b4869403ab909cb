import { createHash } from "node:crypto";

/** Returns the id of a text: the first 32 hex digits of its SHA-256. */
export function contentId(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}
