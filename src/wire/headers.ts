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

/** `idempotency-key`, and names with a prefix that a gateway may read as one. */
const idempotencyName = /idempoten/;

/** Reports that a gateway may read a header as an idempotency key. */
export function isIdempotencyHeader(name: string): boolean {
  return idempotencyName.test(name);
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
 * Headers of one connection (RFC 9110, 7.6.1), cookies, which are nobody's business behind a shared key, and what is said
 * of the gateway's own origin, which would be false of ours.
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

/** Of these ours are the only ones: two of a kind make a browser refuse the answer. */
const [ownPrefix, corsPrefix] = ["x-farebox-", "access-control-"] as const;

/**
 * The gateway's answers come from our origin, where the dashboard is. A browser that opens one as a page must take it for
 * what it says it is, and give it neither scripts nor the origin, whatever a model was made to write. The gateway's own
 * policy stays beside it: of two, a browser heeds both.
 */
const harmless = [
  ["x-content-type-options", "nosniff"],
  ["content-security-policy", "sandbox"],
] as const;

/** The gateway's headers that the client gets, in their order and spelling, and ours for browsers. `raw` is name, value, name, value … */
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
