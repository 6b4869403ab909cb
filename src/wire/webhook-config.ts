import { invalid, type OrRefused } from "../core/refusals.ts";
import { withMember, withMembersHidden, withStringsRewritten } from "./json-edit.ts";
import { isObject, jsonMembers, parseJson } from "./json.ts";
import { equalFolded } from "./findings.ts";

/**
 * Receiver of the gateway's callback for a task, from the request's `config.webhook_config`. A value that is not set is
 * "".
 */
export interface WebhookConfig {
  readonly endpoint: string;
  readonly secret: string;
}

export const noWebhook: WebhookConfig = { endpoint: "", secret: "" };

export type WebhookConfigResult = OrRefused<{ config: WebhookConfig }>;

/** Longest address or secret, in UTF-16 units. */
const textCharsMax = 2048;
/** Characters that a header cannot contain. */
// oxlint-disable-next-line no-control-regex -- the pattern finds control characters
const controls = /[\u0000-\u001f\u007f]/;

/** Reads the webhook of a creation request. Refuses a request in which the gateway might find a different webhook. */
export function readWebhookConfig(body: Buffer): WebhookConfigResult {
  const config = memberOf(body, "config", "config");
  if (!config.ok) return config;
  const webhook = memberOf(config.object, "webhook_config", "config.webhook_config");
  if (!webhook.ok) return webhook;
  const endpoint = textOf(webhook.object, "endpoint");
  const secret = textOf(webhook.object, "secret");
  if (!endpoint.ok) return endpoint;
  if (!secret.ok) return secret;
  return { ok: true, config: { endpoint: endpoint.text, secret: secret.text } };
}

/**
 * Returns the bytes of a member that is an object, or "{}" if the member is missing or null. Refuses any other value.
 */
function memberOf(object: Buffer, name: string, path: string): OrRefused<{ object: Buffer }> {
  const found = soleMember(object, name, path);
  if (!found.ok) return found;
  const text = found.value?.toString("utf8") ?? "null";
  if (text === "null") return { ok: true, object: Buffer.from("{}") };
  return isObject(parseJson(text))
    ? { ok: true, object: found.value ?? Buffer.from("{}") }
    : invalid(path, `'${path}' must be an object`);
}

function textOf(webhook: Buffer, name: "endpoint" | "secret"): OrRefused<{ text: string }> {
  const path = `config.webhook_config.${name}`;
  const found = soleMember(webhook, name, path);
  if (!found.ok) return found;
  const text = parseJson(found.value?.toString("utf8") ?? "null") ?? "";
  if (typeof text !== "string" || text.length > textCharsMax || controls.test(text)) {
    return invalid(path, `'${path}' must be a text of at most ${textCharsMax} characters on one line`);
  }
  return { ok: true, text };
}

function soleMember(object: Buffer, name: string, path: string): OrRefused<{ value: Buffer | undefined }> {
  const matching = jsonMembers(object).filter((member) => equalFolded(member.name, name));
  const [only] = matching;
  if (matching.length > 1) return invalid(path, `'${path}' is given twice`);
  if (only !== undefined && only.name !== name) return invalid(path, `'${only.name}' must be written '${name}'`);
  return { ok: true, value: only && object.subarray(only.valueStart, only.valueEnd) };
}

/** Sets the webhook of a creation request that `readWebhookConfig` has accepted. All other bytes stay the same. */
export function withWebhookConfig(body: Buffer, { endpoint, secret }: WebhookConfig): Buffer {
  const config = objectBytes(body, "config");
  const webhook = objectBytes(config, "webhook_config");
  const set = withMember(withMember(webhook, "secret", JSON.stringify(secret)), "endpoint", JSON.stringify(endpoint));
  return withMember(body, "config", withMember(config, "webhook_config", set.toString("utf8")).toString("utf8"));
}

/** Returns the bytes of a member that is an object; "{}" if the member is missing or has any other value. */
function objectBytes(object: Buffer, name: string): Buffer {
  const found = jsonMembers(object).find((member) => member.name === name);
  const text = found && object.subarray(found.valueStart, found.valueEnd);
  return text?.[0] === "{".charCodeAt(0) ? text : Buffer.from("{}");
}

/**
 * Replaces Farebox's webhook with the client's in an answer or a payload of the gateway. All other bytes stay the same.
 */
export function withWebhookShown(bytes: Buffer, ours: WebhookConfig, theirs: WebhookConfig): Buffer {
  return withStringsRewritten(bytes, [ours.endpoint.slice(ours.endpoint.lastIndexOf("/") + 1), ours.secret], (text) =>
    text.replaceAll(ours.endpoint, () => theirs.endpoint).replaceAll(ours.secret, () => theirs.secret),
  );
}

/**
 * Replaces the whole webhook with the text `hidden`. Used if Farebox no longer knows which values in it are Farebox's.
 */
export function withWebhookHidden(bytes: Buffer, hidden: string): Buffer {
  return withMembersHidden(bytes, (name) => name === "webhook_config", hidden);
}
