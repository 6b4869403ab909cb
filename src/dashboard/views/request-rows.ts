import type { Parameters } from "../api.ts";
import { rangeNames } from "../calendar.ts";
import type { ChargeJson, RefusalJson } from "../types.ts";

/* Rows of the list of requests: charges and refusals, merged by time. */

/** Row of the list of requests: a charge, or equal refusals of one minute. */
export type Row =
  | { readonly kind: "charge"; readonly id: string; readonly time: string; readonly charge: ChargeJson }
  | { readonly kind: "refusal"; readonly id: string; readonly time: string; readonly refusal: RefusalJson };

export const charged = (charge: ChargeJson): Row => ({
  kind: "charge",
  id: charge.request_id,
  time: charge.time,
  charge,
});
/**
 * Returns the row of a refusal. Its id contains every field by which the ledger distinguishes refusals within a minute.
 */
export const refused = (refusal: RefusalJson): Row => {
  const { first_at, key, team, model, route, code, scope, period, subject } = refusal;
  const id = JSON.stringify([first_at.slice(0, 16), key, team, model, route, code, scope, period, subject]);
  return { kind: "refusal", id, time: refusal.last_at, refusal };
};

/** Largest number of rows in a live list, unless the user has loaded more. The list then keeps as many as it has. */
const keptMax = 200;

export interface Loaded {
  readonly rows: readonly Row[] | null;
  /** Cursor of the next page, whose rows follow the loaded ones; null at the end of the list. */
  readonly older: string | null;
  /** Time up to which the server searched, if it stopped early and rows may be missing; otherwise null or absent. */
  readonly examinedTo?: string | null | undefined;
}

const newestFirst = (one: Row, other: Row) => (one.time < other.time ? 1 : one.time > other.time ? -1 : 0);

/**
 * Adds newer rows to a list, and replaces rows that changed. A full page of new rows replaces the whole list, because
 * rows between the page and the list may be missing.
 */
export function withNewer(
  before: Loaded,
  newest: Loaded & { readonly rows: readonly Row[] },
  keeps: (row: Row) => boolean,
): Loaded {
  const { rows: news, older } = newest;
  if (news.length === 0 || before.rows === null) return before;
  const ids = new Set(before.rows.map(({ id }) => id));
  if (older !== null && !news.some(({ id }) => ids.has(id))) return newest;
  const arrived = new Map(news.map((row) => [row.id, row]));
  const updated = before.rows.map((row) => {
    const newer = arrived.get(row.id);
    arrived.delete(row.id);
    return newer ?? row;
  });
  const all = [...[...arrived.values()].toSorted(newestFirst), ...updated].filter(keeps);
  const kept = all.slice(0, Math.max(keptMax, before.rows.length));
  const last = kept.at(-1);
  const isCut = kept.length < all.length && last?.kind === "charge";
  return isCut ? { rows: kept, older: last.id } : { ...before, rows: kept };
}

/** Returns the time down to which the loaded rows of a list are complete; "" if the list has no next page. */
export function endOf({ rows, older, examinedTo }: Loaded): string {
  return older === null ? "" : (examinedTo ?? rows?.at(-1)?.time ?? "");
}

/**
 * Merges lists, newest first. If a list has older rows on the server, the result ends at its last loaded row, because
 * the rows below would have gaps. `until` is the time of that end. If `isSorted` is true, a single list keeps the order
 * of the server.
 */
export function merged(
  parts: readonly Loaded[],
  isSorted = false,
): { readonly rows: readonly Row[]; readonly until: string } {
  const until = parts.map(endOf).toSorted().at(-1) ?? "";
  const all = parts.flatMap(({ rows }) => rows ?? []);
  // Within a minute, the server returns refusals in no particular order.
  if (parts.length === 1)
    return { rows: all[0]?.kind === "refusal" && !isSorted ? all.toSorted(newestFirst) : all, until };
  return { rows: all.toSorted(newestFirst).filter(({ time }) => time >= until), until };
}

const states = ["pending", "posted", "voided"] as const;

/** Filters that apply only to charges, because refusals have none of these fields. */
export const chargeFilters = [
  "group",
  "without",
  "source",
  "doubt",
  "user",
  "tag",
  "label",
  "min_usd",
  "max_usd",
] as const;
/** Parameters for search and order. With one of them, the list shows either charges or refusals, not both. */
export const listNames = ["q", "sort", "order"] as const;
const names = ["key", "team", "model"] as const;
export const filterNames = [
  ...names,
  "state",
  "status",
  "code",
  ...chargeFilters,
  ...listNames,
  ...rangeNames,
] as const;

/** Parameters for the lists of charges and refusals that the address selects; null for a list that it excludes. */
interface AskedRequests {
  readonly charges: Parameters | null;
  readonly refusals: Parameters | null;
  /** True if the address has any filter. */
  readonly isFiltered: boolean;
}

/** Reads the filters of an address. A key sees only its own requests, so it cannot filter by key and team. */
export function requestsOf(query: URLSearchParams, bounds: Parameters, isAdmin: boolean): AskedRequests {
  const read = (wanted: readonly string[]) => Object.fromEntries(wanted.map((name) => [name, query.get(name)]));
  const status = query.get("state") ?? query.get("status");
  const state = states.find((each) => each === status) ?? null;
  const shared = { ...read(isAdmin ? names : ["model"]), ...bounds };
  const [own, listed] = [read(chargeFilters), read(listNames)];
  const code = query.get("code");
  const onlyRefused = status === "refused" || code !== null;
  const hasOwn = Object.values(onlyRefused ? own : { ...own, ...listed }).some((value) => value !== null);
  return {
    charges: onlyRefused
      ? null
      : { ...shared, ...own, ...listed, state, ...(state === null && status !== null && { status }) },
    refusals: hasOwn || (status !== null && status !== "refused") ? null : { ...shared, ...listed, code },
    isFiltered: filterNames.some((name) => query.get(name) !== null),
  };
}
