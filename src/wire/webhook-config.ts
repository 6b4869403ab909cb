import type { Refusal } from "../core/refusals.ts";
import { isObject, jsonMembers, parseJson, withMember, withMembersHidden, withStringsRewritten } from "./json.ts";
import { equalFolded } from "./findings.ts";

/** `config.webhook_config` of a task: the receiver of the gateway's callback. "" means none. */
export interface WebhookConfig {
  readonly endpoint: string;
  readonly secret: string;
}

export const noWebhook: WebhookConfig = { endpoint: "", secret: "" };

export type WebhookConfigResult =
  | { readonly ok: true; readonly config: WebhookConfig }
  | { readonly ok: false; readonly refusal: Refusal };

/** Longer addresses and secrets are nobody's. */
const textCharsMax = 2048;
/** Characters that a header cannot contain. */
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const controls = /[\u0000-\u001f\u007f]/;

/** Reads what a creation says of its webhook. Refuses what the gateway might read differently: what is put in its place must be what counts. */
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

type MemberResult = { readonly ok: true; readonly object: Buffer } | { readonly ok: false; readonly refusal: Refusal };

/** The text of an object's member that is an object itself; of an empty one where it is not given. */
function memberOf(object: Buffer, name: string, shown: string): MemberResult {
  const found = soleMember(object, name, shown);
  if (!found.ok) return found;
  const text = found.value?.toString("utf8") ?? "null";
  if (text === "null") return { ok: true, object: Buffer.from("{}") };
  return isObject(parseJson(text))
    ? { ok: true, object: found.value ?? Buffer.from("{}") }
    : invalid(shown, `'${shown}' must be an object`);
}

function textOf(
  webhook: Buffer,
  name: "endpoint" | "secret",
): { readonly ok: true; readonly text: string } | { readonly ok: false; readonly refusal: Refusal } {
  const shown = `config.webhook_config.${name}`;
  const found = soleMember(webhook, name, shown);
  if (!found.ok) return found;
  const text = parseJson(found.value?.toString("utf8") ?? "null") ?? "";
  if (typeof text !== "string" || text.length > textCharsMax || controls.test(text)) {
    return invalid(shown, `'${shown}' must be a text of at most ${textCharsMax} characters on one line`);
  }
  return { ok: true, text };
}

type SoleMember =
  | { readonly ok: true; readonly value: Buffer | undefined }
  | { readonly ok: false; readonly refusal: Refusal };

function soleMember(object: Buffer, name: string, shown: string): SoleMember {
  const twins = jsonMembers(object).filter((member) => equalFolded(member.name, name));
  const [only] = twins;
  if (twins.length > 1) return invalid(shown, `'${shown}' is given twice`);
  if (only !== undefined && only.name !== name) return invalid(shown, `'${only.name}' must be written '${name}'`);
  return { ok: true, value: only && object.subarray(only.valueStart, only.valueEnd) };
}

function invalid(param: string, message: string): { readonly ok: false; readonly refusal: Refusal } {
  return { ok: false, refusal: { code: "invalid_request", param, message } };
}

/** The same creation with another webhook, which was read before; every other byte stays as it was. */
export function withWebhookConfig(body: Buffer, { endpoint, secret }: WebhookConfig): Buffer {
  const config = memberText(body, "config");
  const webhook = memberText(config, "webhook_config");
  const set = withMember(withMember(webhook, "secret", JSON.stringify(secret)), "endpoint", JSON.stringify(endpoint));
  return withMember(body, "config", withMember(config, "webhook_config", set.toString("utf8")).toString("utf8"));
}

/** The text of a member that is an object; "{}" for any other. */
function memberText(object: Buffer, name: string): Buffer {
  const found = jsonMembers(object).find((member) => member.name === name);
  const text = found && object.subarray(found.valueStart, found.valueEnd);
  return text?.[0] === "{".charCodeAt(0) ? text : Buffer.from("{}");
}

/** An answer or a payload of the gateway with the client's webhook wherever it has ours; every other byte stays as it was. */
export function withWebhookShown(bytes: Buffer, ours: WebhookConfig, theirs: WebhookConfig): Buffer {
  return withStringsRewritten(bytes, [ours.endpoint.slice(ours.endpoint.lastIndexOf("/") + 1), ours.secret], (text) =>
    text.replaceAll(ours.endpoint, () => theirs.endpoint).replaceAll(ours.secret, () => theirs.secret),
  );
}

/** Hides the whole webhook, because it is no longer known which part of it is Farebox's. */
export function withWebhookHidden(bytes: Buffer, hidden: string): Buffer {
  return withMembersHidden(bytes, (name) => name === "webhook_config", hidden);
}
