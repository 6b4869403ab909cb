import { createHmac } from "node:crypto";

/** The headers of Standard Webhooks (https://www.standardwebhooks.com) without a signature: the receiver knows repeats by the id. */
export function webhookHeaders(id: string, at: number): Record<string, string> {
  return { "content-type": "application/json", "webhook-id": id, "webhook-timestamp": String(Math.floor(at / 1000)) };
}

/**
 * The signature's header: HMAC-SHA256 over id, timestamp and body, joined by dots. A secret in the standard's form
 * (`whsec_` and base64) stands for the bytes that it encodes, any other one for its own.
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

/** Adds the signature to the headers of a message; none without a secret. */
export function signedWith(
  secret: string | null,
): (standard: Readonly<Record<string, string>>, body: string) => Record<string, string> {
  return (standard, body) => (secret === null ? {} : signatureHeader(secret, standard, body));
}

const encodedPrefix = "whsec_";
