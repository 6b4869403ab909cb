import type { Transform } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { freeParameters, headerValues } from "./field-table.ts";
import { Findings, mergeFindings, namesIn } from "./findings.ts";
import type { Endpoint } from "./endpoint.ts";
import type { ModelRequest } from "./model-request.ts";
import type { Refusal } from "../core/refusals.ts";
import { isTagName, runSessionOf, sessionTag, tagsMax, tagValueBytesMax, type RunSession } from "../core/keys.ts";

/** Request headers that reach the gateway, by exact name or by prefix. All others stay here. */
const requestNames = new Set([
  "accept",
  "accept-language",
  "content-type",
  "idempotency-key",
  "user-agent",
  "x-client-request-id",
]);
const requestPrefixes = ["openai-", "anthropic-", "x-stainless-"];

/** Reports that a gateway may read a header as an idempotency key, whatever prefix it has. */
export function isIdempotencyHeader(name: string): boolean {
  return name.includes("idempoten");
}

/**
 * Returns the client's headers that may reach the gateway; credentials, cookies and forwarding headers never do.
 * `idempotencyKey` gives the value to forward in place of the client's: the gateway knows one account, not our keys.
 */
export function forwardableHeaders(
  headers: Iterable<readonly [string, string]>,
  idempotencyKey: (value: string) => string,
): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of headers) {
    if (!requestNames.has(name) && !requestPrefixes.some((prefix) => name.startsWith(prefix))) continue;
    if (!isIdempotencyHeader(name)) kept[name] = value;
    // An empty value is no key; its digest would be one, the same for every request.
    else if (value.trim() !== "") kept[name] = idempotencyKey(value);
  }
  return kept;
}

/**
 * Headers of one connection (RFC 9110, 7.6.1), cookies, which belong to the shared key, and headers about the gateway's
 * own origin, which do not apply to Farebox's.
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

/** Only Farebox sets these: two of a kind make a browser refuse the answer. */
const [ownPrefix, corsPrefix] = ["x-farebox-", "access-control-"] as const;

/**
 * Answers come from the dashboard's origin. A browser that opens one as a page must give it neither scripts nor that
 * origin. The gateway's own policy stays too: a browser applies both.
 */
const harmless = [
  ["x-content-type-options", "nosniff"],
  ["content-security-policy", "sandbox"],
] as const;

/** Returns the gateway's headers for the client, in their order and spelling, and ours for browsers. `raw` is name, value, name, value … */
export function answerHeaders(raw: readonly string[]): (readonly [string, string])[] {
  const kept: (readonly [string, string])[] = [];
  const named = connectionOptions(raw);
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? "";
    const lower = name.toLowerCase();
    if (droppedFromAnswers.has(lower) || named.includes(lower)) continue;
    if (lower.startsWith(ownPrefix) || lower.startsWith(corsPrefix)) continue;
    kept.push([name, raw[index + 1] ?? ""]);
  }
  kept.push(...harmless);
  return kept;
}

/** Names that the `connection` header declares to be of this connection only. */
function connectionOptions(raw: readonly string[]): readonly string[] {
  let names: string[] = [];
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const name = raw[index] ?? "";
    if (name.length !== "connection".length || name.toLowerCase() !== "connection") continue;
    const options = (raw[index + 1] ?? "").toLowerCase();
    // These name no header; they are nearly all that is ever stated.
    if (options === "keep-alive" || options === "close") continue;
    names = names.concat(options.split(",").map((option) => option.trim()));
  }
  return names;
}

/** The most that an answer may unpack to; a larger one is settled at its hold. */
export const decodedBytesMax = 32 * 1024 * 1024;

/** Decoded bytes handed over at a time: other requests are served between two pieces. */
const chunkSize = 64 * 1024;

/** An answer that was cut is decoded up to where it was cut. */
const zlibOptions = { chunkSize, finishFlush: constants.Z_SYNC_FLUSH };
const decoders: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ["gzip", () => createGunzip(zlibOptions)],
  ["deflate", () => createInflate(zlibOptions)],
  ["br", () => createBrotliDecompress({ chunkSize, finishFlush: constants.BROTLI_OPERATION_FLUSH })],
  ["zstd", () => createZstdDecompress({ chunkSize, finishFlush: constants.ZSTD_e_flush })],
]);

/** Reports that a body with this `content-encoding` is plain bytes. */
export function isPlain(contentEncoding: string | undefined): boolean {
  return contentEncoding === undefined || contentEncoding === "" || contentEncoding.toLowerCase() === "identity";
}

/** Decodes one body at a time: a few kilobytes can become as much as is permitted. */
let previous: Promise<unknown> = Promise.resolve();

/**
 * Decodes a copy of a body, also of one that was cut, and hands it to `into` piece by piece. Resolves to false where it
 * cannot be decoded or has more than `bytesMax`: what `into` has then received is a part.
 */
export function decodeInto(
  bytes: Buffer,
  contentEncoding: string,
  bytesMax: number,
  into: (piece: Buffer) => void,
): Promise<boolean> {
  const decoder = decoders.get(contentEncoding.toLowerCase().trim().replace(/^x-/, ""));
  if (decoder === undefined) return Promise.resolve(false);
  const result = previous.then(() => pipeInto(decoder().end(bytes), bytesMax, into));
  previous = result;
  return result;
}

async function pipeInto(decoding: Transform, bytesMax: number, into: (piece: Buffer) => void): Promise<boolean> {
  let size = 0;
  try {
    for await (const piece of decoding as AsyncIterable<Buffer>) {
      size += piece.length;
      if (size > bytesMax) return false;
      into(piece);
    }
    return true;
  } catch {
    return false;
  }
}

/** Returns a decoded copy of a body, also of one that was cut; undefined where it cannot be decoded or has more than `bytesMax`. */
export async function decoded(bytes: Buffer, contentEncoding: string, bytesMax: number): Promise<Buffer | undefined> {
  const pieces: Buffer[] = [];
  return (await decodeInto(bytes, contentEncoding, bytesMax, (piece) => pieces.push(piece)))
    ? Buffer.concat(pieces)
    : undefined;
}

/** Adds what the headers and the query say of the price; returns the same request if they say nothing. */
export function withHeadersAndQuery(
  request: ModelRequest,
  { fields, isOpen = false }: Pick<Endpoint, "fields" | "isOpen">,
  headers: Iterable<readonly [name: string, value: string]>,
  query: string,
): ModelRequest {
  let findings: Findings | undefined;
  for (const [name, value] of headers) {
    if (name.startsWith("openai-") || name.startsWith("anthropic-"))
      judgeHeader((findings ??= new Findings()), name, value);
  }
  for (const [name, value] of query === "" ? [] : new URLSearchParams(query)) {
    if (!freeParameters.has(name)) judgeParameter((findings ??= new Findings()), name, value, fields);
  }
  if (findings === undefined || findings.isEmpty) return request;
  // Parameters of other paths are not known, so none is reported as unknown; models that they name count.
  const facts = isOpen ? findings.withoutUnknown() : findings;
  return {
    ...request,
    size: { ...request.size, unboundedFields: [...request.size.unboundedFields, ...findings.context] },
    unboundedFields: [...request.unboundedFields, ...findings.expensive],
    fields: mergeFindings(request.fields, facts),
  };
}

function judgeHeader(findings: Findings, name: string, value: string): void {
  const known = headerValues.get(name);
  if (known === "free") return;
  const path = `header ${name}`;
  if (known === undefined) return unknown(findings, path, value);
  for (const piece of value.split(",").map((text) => text.trim())) {
    const expensive = known.expensive.find(([pattern]) => pattern.test(piece));
    if (expensive !== undefined) findings.field(path, piece, { expensive: expensive[1] });
    else if (!known.free.some((pattern) => pattern.test(piece))) unknown(findings, path, piece);
  }
}

/** A gateway may read a parameter as the field of its name. */
function judgeParameter(findings: Findings, name: string, value: string, fields: Endpoint["fields"]): void {
  const path = `query ${name}`;
  const twin = fields.pricedFieldFor(name);
  const meaning = twin === undefined ? undefined : fields.meaningOf(twin);
  if (twin === "model" || meaning === "models") {
    for (const model of namesIn(value)) findings.model(model);
    return;
  }
  if (meaning === undefined || meaning === "free" || meaning === "context") return unknown(findings, path, value);
  findings.field(
    path,
    value,
    typeof meaning === "object" && "expensive" in meaning ? meaning : { expensive: `it may be read as '${twin}'` },
  );
  for (const piece of namesIn(value)) findings.mention(piece);
}

function unknown(findings: Findings, path: string, value: string): void {
  findings.unknownField(path, value);
  for (const piece of namesIn(value)) findings.mention(piece);
}

/**
 * Reads `x-stainless-retry-count`, in which the SDKs of OpenAI and Anthropic count how often they have sent a request
 * before: 0 for a first try, and for whatever is not a whole number up to 1000.
 */
export function readRetry(header: string | undefined): number {
  if (header === undefined || !/^\d{1,4}$/.test(header)) return 0;
  const retry = Number(header);
  return retry > 1000 ? 0 : retry;
}

type TagsResult =
  | { readonly ok: true; readonly tags: Readonly<Record<string, string>> }
  | { readonly ok: false; readonly refusal: Refusal };

/** Reads `x-farebox-tag: name=value, name=value`: up to 8 tags, which attribute the charge. */
export function readTags(header: string | undefined): TagsResult {
  if (header === undefined || header.trim() === "") return { ok: true, tags: {} };
  const tags = new Map<string, string>();
  for (const piece of header.split(",")) {
    const equals = piece.indexOf("=");
    const name = piece.slice(0, equals === -1 ? undefined : equals).trim();
    const value = equals === -1 ? "" : piece.slice(equals + 1).trim();
    if (!isTagName(name) || value === "" || Buffer.byteLength(value) > tagValueBytesMax) return malformed();
    if (tags.has(name)) return malformed();
    tags.set(name, value);
  }
  return tags.size > tagsMax ? malformed() : { ok: true, tags: Object.fromEntries(tags) };
}

/** The tags of a request: those of its session of `farebox run` cannot be changed, and no one else has them. */
export function readPinnedTags(header: string | undefined, session: RunSession | undefined): TagsResult {
  const read = readTags(header);
  if (!read.ok) return read;
  const { tags } = read;
  if (session === undefined)
    return runSessionOf(tags) === null
      ? read
      : refused(`the tag ${sessionTag}=${runSessionOf(tags)} is for requests with that session's own credential`);
  const pinned: Readonly<Record<string, string>> = { ...session.tags, [sessionTag]: session.id };
  const changed = Object.keys(pinned).find((name) => Object.hasOwn(tags, name) && tags[name] !== pinned[name]);
  if (changed !== undefined)
    return refused(`this session has the tag ${changed}=${pinned[changed]}, which no request changes`);
  const all = { ...tags, ...pinned };
  const count = Object.keys(all).length;
  return count > tagsMax
    ? refused(`a request has at most ${tagsMax} tags, and with those of its session this one has ${count}`)
    : { ok: true, tags: all };
}

function malformed(): TagsResult {
  const message = `x-farebox-tag takes up to ${tagsMax} 'name=value' pairs with commas between them, each name once; names of up to 63 of a-z, 0-9, '.', '_' and '-', values of 1 to ${tagValueBytesMax} bytes without a comma`;
  return refused(message);
}

function refused(message: string): TagsResult {
  return { ok: false, refusal: { code: "invalid_request", param: null, message } };
}
