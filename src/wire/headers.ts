import { isUtf8 } from "node:buffer";
import { freeParameters, headerValues as knownHeaders, type HeaderTable } from "./field-table.ts";
import { Findings, mergeFindings, namesIn } from "./findings.ts";
import type { Endpoint } from "./endpoint.ts";
import { boundaryOf, formType } from "./multipart.ts";
import type { ModelRequest } from "./model-request.ts";
import { invalid, type OrRefused } from "../core/refusals.ts";
import {
  isRunSession,
  isTagName,
  isTagValue,
  runSessionOf,
  sessionTag,
  tagsMax,
  tagValueCharsMax,
  type RunSession,
  type TagHeader,
  type Values,
  userPattern,
  type UserMode,
} from "../core/keys.ts";
import { createHmac } from "node:crypto";

/** Headers of a trace, by the W3C's recommendation. */
// cspell:ignore tracestate
export const traceHeaders = ["traceparent", "tracestate"] as const;

/** Request headers that Farebox forwards, by exact name or by prefix. Farebox drops all others. */
const forwardedNames = new Set<string>([
  "accept",
  "accept-language",
  "idempotency-key",
  "user-agent",
  "x-app",
  "x-client-request-id",
  ...traceHeaders,
]);
const forwardedPrefixes = ["openai-", "anthropic-", "x-claude-code-", "x-stainless-"];

/**
 * Form in which Farebox reads the body of a request. `unread`: Farebox forwards a body that it cannot read as JSON.
 * `none`: no body is sent.
 */
export type BodyForm = "json" | "form" | "unread" | "none";

/**
 * Returns the content type for the gateway, so that the gateway reads a body in the same form as Farebox. Another form
 * could name another model. A form whose boundary Farebox cannot read keeps its type.
 */
export function sentContentType(given: string | undefined, form: BodyForm): string | undefined {
  if (form === "json") return "application/json";
  if (form === "none") return undefined;
  const boundary = form === "form" && given !== undefined ? boundaryOf(given) : undefined;
  return boundary === undefined ? given : formType(boundary);
}

/** Returns true for a content type of JSON. */
export function isJsonType(contentType: string | undefined): boolean {
  return /^application\/(?:[\w.+-]+\+)?json\b/i.test(contentType ?? "");
}

/** Returns true if a gateway may read a header with this name as an idempotency key. */
export function isIdempotencyHeader(name: string): boolean {
  return name.includes("idempoten");
}

/**
 * Returns the client's headers that may reach the gateway, never credentials, cookies, forwarding headers or headers
 * about the body. `idempotencyKey` replaces the client's value, because all keys of Farebox share one account at the
 * gateway.
 */
export function forwardableHeaders(
  headers: Iterable<readonly [string, string]>,
  idempotencyKey: (value: string) => string,
): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of headers) {
    if (!forwardedNames.has(name) && !forwardedPrefixes.some((prefix) => name.startsWith(prefix))) continue;
    if (!isIdempotencyHeader(name)) kept[name] = value;
    // An empty value is not a key, but its digest would be the same key for every request.
    else if (value.trim() !== "") kept[name] = idempotencyKey(value);
  }
  return kept;
}

/**
 * Headers of the gateway that Farebox drops. Some apply to a single connection (RFC 9110, 7.6.1). Cookies belong to the
 * gateway key that all clients share. The others describe the gateway's origin, not Farebox's.
 */
const droppedFromAnswers = new Set([
  "alt-svc",
  "connection",
  "keep-alive",
  "proxy-authenticate",
  "proxy-connection",
  "set-cookie",
  "strict-transport-security",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "x-content-type-options",
]);

/** Prefixes of headers that only Farebox sets. Browsers reject an answer with two CORS headers of the same kind. */
const [ownPrefix, corsPrefix] = ["x-farebox-", "access-control-"] as const;

/**
 * Headers that make an answer harmless if a browser opens it as a page. The page would have the dashboard's origin, so
 * the browser must not run its scripts. The gateway's policy is forwarded too, because browsers apply both.
 */
const browserProtection = [
  ["x-content-type-options", "nosniff"],
  ["content-security-policy", "sandbox"],
] as const;

/**
 * Returns the gateway's headers for the client in their original order and spelling, followed by the headers that
 * protect browsers. `raw` contains names and values alternately.
 */
export function answerHeaders(raw: readonly string[]): (readonly [string, string])[] {
  const kept: (readonly [string, string])[] = [];
  const connectionHeaders = connectionOptions(raw);
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? "";
    const lower = name.toLowerCase();
    if (droppedFromAnswers.has(lower) || connectionHeaders.includes(lower)) continue;
    if (lower.startsWith(ownPrefix) || lower.startsWith(corsPrefix)) continue;
    kept.push([name, raw[index + 1] ?? ""]);
  }
  kept.push(...browserProtection);
  return kept;
}

/** Returns the names of headers that apply only to this connection, according to the `connection` header. */
function connectionOptions(raw: readonly string[]): readonly string[] {
  let names: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? "";
    if (name.length !== "connection".length || name.toLowerCase() !== "connection") continue;
    const options = (raw[index + 1] ?? "").toLowerCase();
    // The two most common values need no list: `keep-alive` is dropped anyway, and `close` is not a header.
    if (options === "keep-alive" || options === "close") continue;
    names = names.concat(options.split(",").map((option) => option.trim()));
  }
  return names;
}

/** Returns the request with the findings from its headers and query. Returns the same object if there are none. */
export function withHeadersAndQuery(
  request: ModelRequest,
  { fields, isUnknown = false, headerValues = knownHeaders }: Pick<Endpoint, "fields" | "isUnknown" | "headerValues">,
  headers: Iterable<readonly [name: string, value: string]>,
  query: string,
): ModelRequest {
  let findings: Findings | undefined;
  for (const [name, value] of headers) {
    if (name.startsWith("openai-") || name.startsWith("anthropic-"))
      checkHeader((findings ??= new Findings()), name, value, headerValues);
  }
  for (const [name, value] of query === "" ? [] : new URLSearchParams(query)) {
    if (!freeParameters.has(name)) checkParameter((findings ??= new Findings()), name, value, fields);
  }
  if (findings === undefined || findings.isEmpty) return request;
  // An unknown path may have any parameters, so none is reported as unknown. Models that they name still count.
  const added = isUnknown ? findings.withoutUnknown() : findings;
  return {
    ...request,
    size: { ...request.size, unboundedFields: [...request.size.unboundedFields, ...findings.context] },
    unboundedFields: [...request.unboundedFields, ...findings.expensive],
    fields: mergeFindings(request.fields, added),
  };
}

function checkHeader(findings: Findings, name: string, value: string, values: HeaderTable): void {
  const known = values.get(name);
  if (known === "free") return;
  const path = `header ${name}`;
  if (known === undefined) return unknown(findings, path, value);
  for (const piece of value.split(",").map((text) => text.trim())) {
    const expensive = known.expensive.find(([pattern]) => pattern.test(piece));
    if (expensive !== undefined) findings.field(path, piece, { expensive: expensive[1] });
    else if (!known.free.some((pattern) => pattern.test(piece))) unknown(findings, path, piece);
  }
}

/** Records a query parameter. A gateway may read it as the request's field of the same name. */
function checkParameter(findings: Findings, name: string, value: string, fields: Endpoint["fields"]): void {
  const path = `query ${name}`;
  const field = fields.fieldReadAs(name);
  const meaning = field === undefined ? undefined : fields.meaningOf(field);
  if (field === "model" || meaning === "models") {
    for (const model of namesIn(value)) findings.model(model);
    return;
  }
  if (meaning === undefined || meaning === "free" || meaning === "context") return unknown(findings, path, value);
  findings.field(
    path,
    value,
    typeof meaning === "object" && "expensive" in meaning ? meaning : { expensive: `it may be read as '${field}'` },
  );
  for (const piece of namesIn(value)) findings.mention(piece);
}

function unknown(findings: Findings, path: string, value: string): void {
  findings.unknownField(path, value);
  for (const piece of namesIn(value)) findings.mention(piece);
}

/**
 * Reads `x-stainless-retry-count`, in which the SDKs of OpenAI and Anthropic count the earlier attempts of a request.
 * Returns 0 for a first attempt, and for any value that is not a whole number up to 1000.
 */
export function readRetry(header: string | undefined): number {
  if (header === undefined || !/^\d{1,4}$/.test(header)) return 0;
  const retry = Number(header);
  return retry > 1000 ? 0 : retry;
}

type TagsResult = OrRefused<{ tags: Values }>;

/**
 * Returns the text of a header's value: UTF-8 if its bytes are valid UTF-8, otherwise Latin-1. Node.js reads all
 * headers as Latin-1. Texts are not normalized.
 */
export function textOfHeader(header: string): string {
  if (!/[\u0080-\u00ff]/.test(header)) return header;
  const bytes = Buffer.from(header, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : header;
}

/** Reads the tags in the header `x-farebox-tag: name=value, name=value`. */
export function readTags(header: string | undefined): TagsResult {
  if (header === undefined || header.trim() === "") return { ok: true, tags: {} };
  const tags = new Map<string, string>();
  // Splits first, so that a value in Latin-1 does not change how the others are read.
  for (const piece of header.split(",").map(textOfHeader)) {
    const equals = piece.indexOf("=");
    const name = piece.slice(0, equals === -1 ? undefined : equals).trim();
    const value = equals === -1 ? "" : piece.slice(equals + 1).trim();
    if (!isTagName(name) || !isTagValue(value)) return malformed();
    if (tags.has(name)) return malformed();
    tags.set(name, value);
  }
  return tags.size > tagsMax ? malformed() : { ok: true, tags: Object.fromEntries(tags) };
}

/**
 * Reads the tags of a request. Refuses a request that changes the tags of its `farebox run` session or has the tag of
 * another session. The key's tags replace all other tags of the same name.
 */
export function readPinnedTags(
  header: string | undefined,
  session: RunSession | undefined,
  ofKey: Values = noTags,
): TagsResult {
  const read = readTags(header);
  if (!read.ok) return read;
  const { tags } = read;
  if (session === undefined) {
    const named = runSessionOf(tags);
    if (named !== null)
      return invalid(
        null,
        `only requests with the credential of session ${named} may have the tag ${sessionTag}=${named}`,
      );
    return isEmpty(ofKey) ? read : withPinned(tags, ofKey, "key");
  }
  const pinned: Values = { ...session.tags, ...ofKey, [sessionTag]: session.id };
  const changed = Object.keys(pinned).find(
    (name) => Object.hasOwn(tags, name) && tags[name] !== pinned[name] && !Object.hasOwn(ofKey, name),
  );
  if (changed !== undefined)
    return invalid(null, `this session has the tag ${changed}=${pinned[changed]}, which requests cannot change`);
  return withPinned(tags, pinned, "session");
}

/**
 * Adds the tags that the headers of agents state. A tag that the request already has stays. A value that is not valid is
 * ignored, as are tags above the limit: these headers never cause a refusal.
 */
export function withHeaderTags(
  tags: Values,
  headers: readonly TagHeader[],
  exchange: { header(name: string): string | undefined },
): Values {
  let all: Record<string, string> | undefined;
  for (const { header, tag } of headers) {
    const stated = exchange.header(header);
    if (stated === undefined || Object.hasOwn(all ?? tags, tag)) continue;
    const value = textOfHeader(stated).trim();
    // Only the credential of a `farebox run` session gives its tag.
    if (!isTagValue(value) || (tag === sessionTag && isRunSession(value))) continue;
    if (Object.keys(all ?? tags).length >= tagsMax) break;
    all ??= { ...tags };
    all[tag] = value;
  }
  return all ?? tags;
}

const noTags: Values = {};

function isEmpty(values: Values): boolean {
  for (const _name in values) return false;
  return true;
}

function withPinned(tags: Values, pinned: Values, by: "key" | "session"): TagsResult {
  const all = { ...tags, ...pinned };
  const count = Object.keys(all).length;
  return count > tagsMax
    ? invalid(null, `a request may have at most ${tagsMax} tags; with the tags of its ${by}, this request has ${count}`)
    : { ok: true, tags: all };
}

function malformed(): TagsResult {
  return invalid(
    null,
    `x-farebox-tag must have at most ${tagsMax} 'name=value' pairs, separated by commas, with each name once; names have up to 63 characters of a-z, 0-9, '.', '_' and '-'; values have 1 to ${tagValueCharsMax} characters, no commas and no control characters`,
  );
}

/** Function that returns the stored form of a user's name. */
export type StoredUser = (name: string) => string;

export const plainUser: StoredUser = (name) => name;

/**
 * Returns the function that converts users' names to their stored form; null if names are not stored. `secret` is the
 * ledger's secret in hex, so all proxies on a ledger store the same digest of a name.
 */
export function storedUsers(mode: UserMode, secret: string): StoredUser | null {
  if (mode === "off") return null;
  if (mode === "plain") return plainUser;
  const key = Buffer.from(secret, "hex");
  return (name) => `hash_${createHmac("sha256", key).update(`farebox user\n${name}`).digest("hex").slice(0, 32)}`;
}

/** Calls `storedUsers` with the ledger's secret. Reads the secret only if names are hashed. */
export async function readStoredUsers(
  mode: UserMode,
  sessions: { secret(): Promise<string> },
): Promise<StoredUser | null> {
  return storedUsers(mode, mode === "hash" ? await sessions.secret() : "");
}

/** Returns true for the stored form of a hashed name. */
export function isHashedUser(name: string): boolean {
  return /^hash_[0-9a-f]{32}$/.test(name);
}

/**
 * Returns the stored form of a name from a filter or a scope. A digest stays unchanged, because reports show digests.
 */
export function userAsStored(name: string, stored: StoredUser | null): string {
  return stored === null || isHashedUser(name) ? name : stored(name);
}

type UserResult = OrRefused<{ user: string | null }>;

const noUser: UserResult = { ok: true, user: null };

/** Reads the user in the header `x-farebox-user`, in UTF-8 or Latin-1. An empty header counts as missing. */
export function readUserHeader(header: string | undefined): UserResult {
  if (header === undefined || header === "") return noUser;
  const user = textOfHeader(header);
  if (userPattern.test(user)) return { ok: true, user };
  return invalid(null, "x-farebox-user must be a name of at most 128 characters without control characters");
}
