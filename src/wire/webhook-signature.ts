import { createHmac } from "node:crypto";

/**
 * Returns the headers of Standard Webhooks (https://www.standardwebhooks.com), without a signature. Receivers recognize
 * a repeated message by its id.
 */
export function webhookHeaders(id: string, at: number): Record<string, string> {
  return { "content-type": "application/json", "webhook-id": id, "webhook-timestamp": String(Math.floor(at / 1000)) };
}

/**
 * Returns the header with the signature: HMAC-SHA256 over id, timestamp and body, joined by dots. For a secret in the
 * standard's form (`whsec_` and base64), the key is the decoded bytes. For any other secret, the key is the secret's
 * text.
 */
export function signatureHeader(
  secret: string,
  headers: Readonly<Record<string, string>>,
  body: string,
): Record<string, string> {
  const key = secret.startsWith(encodedPrefix)
    ? Buffer.from(secret.slice(encodedPrefix.length), "base64")
    : Buffer.from(secret);
  const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
  return { "webhook-signature": `v1,${createHmac("sha256", key).update(signed).digest("base64")}` };
}

/** Creates a function that returns the signature header of a message. Without a secret, it returns no header. */
export function createSigner(
  secret: string | null,
): (headers: Readonly<Record<string, string>>, body: string) => Record<string, string> {
  return (headers, body) => (secret === null ? {} : signatureHeader(secret, headers, body));
}

const encodedPrefix = "whsec_";
