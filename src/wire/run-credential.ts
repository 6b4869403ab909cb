import { createHmac, timingSafeEqual } from "node:crypto";
import type { RunSession } from "../core/keys.ts";

/** Content of a session's credential. */
interface RunCredential extends Pick<RunSession, "id" | "key" | "expiresAt"> {
  readonly mac: string;
}

/**
 * Pattern of a session's credential: `sk-fb-run_ID-KEY-EXPIRY-MAC`. Never matches a key (`sk-fb-ID-SECRET`), because a
 * key's id contains no underscore.
 */
const credentialPattern = /^sk-fb-(run_[a-z0-9]{1,40})-([a-z0-9]{1,32})-([0-9a-z]{1,11})-([A-Za-z0-9_-]{43})$/;

/** Parses the credential of a session. Returns undefined for any other text. Does not check the MAC. */
export function readCredential(text: string): RunCredential | undefined {
  const [, id, key, expiry, mac] = credentialPattern.exec(text) ?? [];
  if (id === undefined || key === undefined || expiry === undefined || mac === undefined) return undefined;
  return { id, key, expiresAt: Number.parseInt(expiry, 36), mac };
}

/** Returns the credential of a session, signed with the ledger's secret. */
export function createCredential(session: Pick<RunSession, "id" | "key" | "expiresAt">, secret: string): string {
  const { id, key, expiresAt } = session;
  return `sk-fb-${id}-${key}-${expiresAt.toString(36)}-${macOf(session, secret)}`;
}

/** Returns true if a credential was signed with the ledger's secret. */
export function isSigned(credential: RunCredential, secret: string): boolean {
  // Compares the texts and not the decoded bytes, because several base64 texts can encode the same bytes.
  return timingSafeEqual(Buffer.from(credential.mac), Buffer.from(macOf(credential, secret)));
}

function macOf({ id, key, expiresAt }: Pick<RunSession, "id" | "key" | "expiresAt">, secret: string): string {
  return createHmac("sha256", Buffer.from(secret, "hex"))
    .update(`farebox session\n${id}\n${key}\n${expiresAt}`)
    .digest("base64url");
}
