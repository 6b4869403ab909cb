import { createHash } from "node:crypto";
import type { Refusal } from "../core/refusals.ts";
import type { Charging } from "../ports/ledger.ts";
import { isIdempotencyHeader } from "../wire/headers.ts";
import { listOr, objectOr, parseJson, textOr } from "../wire/json.ts";

type InjectedValuesDeps = { readonly ledger: Pick<Charging, "firstText"> };

/** Returns the values that Farebox put into an earlier try with the same idempotency key; null for the first try. */
export async function injectedEarlier(
  { ledger }: InjectedValuesDeps,
  idempotency: string,
  at: number,
): Promise<
  | { readonly ok: true; readonly injected: Pick<InjectedValues, "maximum" | "usage" | "removedTools"> | null }
  | { readonly ok: false; readonly refusal: Refusal }
> {
  const earlier = await ledger.firstText(idempotency, null, at);
  if (!earlier.ok) return { ok: false, refusal: { code: "ledger_unavailable" } };
  return { ok: true, injected: earlier.text === null ? null : readInjected(earlier.text) };
}

/**
 * Stores the injected values of a request for retries with the same idempotency key. Returns a refusal if another try
 * has stored other values.
 */
export async function rememberInjected(
  { ledger }: InjectedValuesDeps,
  { idempotency, injected }: { readonly idempotency: string | null; readonly injected: InjectedValues },
  at: number,
): Promise<Refusal | null> {
  if (idempotency === null) return null;
  const text = injectedText(injected);
  const result = await ledger.firstText(idempotency, text, at);
  if (!result.ok) return { code: "ledger_unavailable" };
  return result.text === text ? null : conflictingRetry;
}

/**
 * Returns the headers of the second try, which does not ask for usage, and the digest that all retries of that try
 * share.
 */
export function secondTryWithoutUsage(route: string, given: Readonly<Record<string, string>>) {
  const headers = headersWithoutUsage(given);
  return { headers, idempotency: idempotencyOf(route, headers) };
}

/** Values that Farebox puts into a request. They are stored under its idempotency key. */
export interface InjectedValues {
  readonly maximum: InjectedMaximum | null;
  readonly toolCalls: number | null;
  readonly usage: boolean;
  /** Hosted tools that Farebox took out of the request, in the form of `HostedTools.fields`. */
  readonly removedTools: readonly string[];
}

function injectedText({ maximum, toolCalls, usage, removedTools }: InjectedValues): string {
  return JSON.stringify({
    ...(maximum && { field: maximum.field, tokens: maximum.tokens, why: maximum.why }),
    ...(toolCalls !== null && { max_tool_calls: toolCalls }),
    ...(usage && { include_usage: true }),
    ...(removedTools.length > 0 && { removed_tools: removedTools }),
  });
}

/** Reads the maximum, the request for usage and the removed tools in the output of `injectedText`. */
function readInjected(text: string): Pick<InjectedValues, "maximum" | "usage" | "removedTools"> {
  const { field, tokens, why, include_usage, removed_tools } = objectOr(parseJson(text));
  const maximum =
    typeof tokens === "number"
      ? { field: String(field), tokens, why: why === "fitted" ? ("fitted" as const) : ("output_cap" as const) }
      : null;
  return { maximum, usage: include_usage === true, removedTools: listOr(removed_tools).map(textOr) };
}

/** Refusal of a retry that would differ from the earlier try at the gateway. */
export const conflictingRetry: Refusal = {
  code: "conflict",
  message: "An earlier request with this idempotency key was sent with different limits; use a new idempotency key.",
};

/** Maximum that Farebox put into a request. It applies to each choice. */
export interface InjectedMaximum {
  readonly field: string;
  readonly tokens: number;
  readonly why: "output_cap" | "fitted";
}

/**
 * Returns the headers for a second try without stream usage. The body of that try differs, so it needs another
 * idempotency key.
 */
function headersWithoutUsage(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, isIdempotencyHeader(name) ? derivedKey(value) : value]),
  );
}

function derivedKey(value: string): string {
  return createHash("sha256").update(`${value}\0without stream usage`).digest("hex");
}

/**
 * Returns a digest of the route and the idempotency headers. All retries of a request have the same digest. Returns
 * null if there is no idempotency key.
 */
export function idempotencyOf(route: string, headers: Readonly<Record<string, string>>): string | null {
  const keys: string[][] = [];
  for (const name in headers) if (isIdempotencyHeader(name)) keys.push([name, headers[name] ?? ""]);
  if (keys.length === 0) return null;
  return createHash("sha256")
    .update(JSON.stringify([route, ...keys]))
    .digest("hex");
}
