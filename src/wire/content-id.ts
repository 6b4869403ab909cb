import { createHash } from "node:crypto";

/** First 32 hex digits of SHA-256: the address of a content. */
export function contentId(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}
