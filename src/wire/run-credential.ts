import { createHmac, timingSafeEqual } from "node:crypto";
import type { RunSession } from "../core/keys.ts";

/** Content of a session's credential. */
interface RunCredential extends Pick<RunSession, "id" | "key" | "expiresAt"> {
  readonly mac: string;
}

/** `sk-fb-run_ID-KEY-EXPIRY-MAC`; the id of a key has no underscore, so it is never one of a key. */
const pattern = /^sk-fb-(run_[a-z0-9]{1,40})-([a-z0-9]{1,32})-([0-9a-z]{1,11})-([A-Za-z0-9_-]{43})$/;

/** Reads a text as the credential of a session; undefined where it is none. Its MAC is not checked. */
export function readCredential(text: string): RunCredential | undefined {
  const [, id, key, expiry, mac] = pattern.exec(text) ?? [];
  if (id === undefined || key === undefined || expiry === undefined || mac === undefined) return undefined;
  return { id, key, expiresAt: Number.parseInt(expiry, 36), mac };
}

/** Returns the credential of a session, signed with the ledger's secret. */
export function credentialOf(session: Pick<RunSession, "id" | "key" | "expiresAt">, secret: string): string {
  const { id, key, expiresAt } = session;
  return `sk-fb-${id}-${key}-${expiresAt.toString(36)}-${macOf(session, secret)}`;
}

/** Reports that the ledger's secret signed a credential. */
export function isSigned(credential: RunCredential, secret: string): boolean {
  // Texts, because several texts of base64 may stand for the same bytes.
  return timingSafeEqual(Buffer.from(credential.mac), Buffer.from(macOf(credential, secret)));
}

function macOf({ id, key, expiresAt }: Pick<RunSession, "id" | "key" | "expiresAt">, secret: string): string {
  return createHmac("sha256", Buffer.from(secret, "hex"))
    .update(`farebox session\n${id}\n${key}\n${expiresAt}`)
    .digest("base64url");
}
