import type { PicoUsd } from "../core/money.ts";
import type { RefusalCode } from "../core/refusals.ts";
import type { TimeSpan } from "./ledger.ts";
import { dayMs } from "../core/time.ts";

/** Equal refusals of one minute. Times are in milliseconds since 1970 UTC. */
export interface RefusalRow {
  /** Start of the minute. */
  readonly minute: number;
  /** Key's id; "" if no known key sent the request. */
  readonly key: string;
  readonly team: string | null;
  readonly route: string;
  /** Requested name, as in charges; `other` if the catalogue does not know it; null if the model was not known yet. */
  readonly model: string | null;
  readonly code: RefusalCode;
  /** Budget or limit that refused the requests, as `formatScope` returns it; null for none. */
  readonly scope: string | null;
  /** Period of the budget; null if no budget refused the requests. */
  readonly period: string | null;
  /** Subject of the window that refused the requests; null if the scope has no `each-…`. */
  readonly subject: string | null;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Largest amount that a refused request needed; null if none is known. */
  readonly needed: PicoUsd | null;
}

/** Pause between two writes of a proxy, in milliseconds. */
export const refusalsWrittenMs = 2_000;
/** Time for which refusals are stored, in milliseconds. */
export const refusalsKeptMs = 90 * dayMs;
/** Largest number of rows of refusals. Beyond it, the oldest are removed. */
export const refusalRowsMax = 1_000_000;

/** Position in the order of rows. The id "" is before all rows of its minute. */
export interface RefusalPosition {
  readonly minute: number;
  readonly id: string;
}

export const refusalSorts = ["time", "count", "needed"] as const;
export type RefusalSort = (typeof refusalSorts)[number];

export interface RefusalQuery {
  /** Key's id; "" for refusals without a known key. */
  readonly key?: string | undefined;
  readonly team?: string | undefined;
  readonly model?: string | undefined;
  readonly code?: string | undefined;
  /** Half-open: from `since` to before `until`. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** Text in the key's name or id, the team, model, code, scope or subject. Letter case does not matter. */
  readonly search?: string | undefined;
  /** `time` unless given, which orders by minute. A row without an amount is sorted as if it needed nothing. */
  readonly sort?: RefusalSort | undefined;
  /** `desc` unless given. */
  readonly order?: "asc" | "desc" | undefined;
  /**
   * Largest number of rows of the key or team and span to examine; absent for all. The query examines the newest rows,
   * but the oldest ones in ascending order of time.
   */
  readonly examinedMax?: number | undefined;
  /** 1 to 1000. */
  readonly limit: number;
  /** The `next` of the previous page, in the same order. */
  readonly cursor?: string | undefined;
}

export interface RefusalPage {
  readonly refusals: readonly RefusalRow[];
  readonly next: string | null;
  /** Minute of the last examined row if `examinedMax` excluded others from this page; otherwise null. */
  readonly examinedTo: number | null;
}

export type RefusalCauseQuery = Pick<
  RefusalQuery,
  "key" | "team" | "model" | "since" | "until" | "examinedMax" | "limit"
>;

/**
 * Refusals with the same key, code and budget window. `model` is null unless the requests were refused because the key
 * may not use the model; each such model is a separate cause.
 */
export type RefusalCause = Pick<
  RefusalRow,
  "key" | "model" | "code" | "scope" | "period" | "subject" | "count" | "lastAt" | "needed"
>;

export interface RefusalCauses {
  /** Causes, latest refusal first, up to the limit of the query. */
  readonly causes: readonly RefusalCause[];
  /** Number of all causes. */
  readonly total: number;
  /** Minute of the last examined row if `examinedMax` excluded older ones; otherwise null. */
  readonly examinedTo: number | null;
}

/** Columns by which refusals can be counted. `quarter` is the start of the quarter hour. */
export type RefusalColumn = "key" | "team" | "model" | "scope" | "period" | "subject" | "quarter";

export interface RefusalCountQuery extends TimeSpan {
  readonly by: readonly RefusalColumn[];
  readonly key?: string;
}

/** Number of refusals with these values. Columns that were not asked for are missing. */
export type RefusalCount = Readonly<Partial<Record<Exclude<RefusalColumn, "quarter">, string | null>>> & {
  readonly quarter?: number;
  readonly count: number;
};

/** Refused requests of the last 90 days. */
export interface Refusals {
  /**
   * Adds rows. Merges a row with a stored row that differs only in count, times and amount. Returns false if the rows
   * could not be written.
   */
  add(rows: readonly RefusalRow[]): Promise<boolean>;
  /** Removes some of the oldest rows up to the position. Returns their number. */
  remove(upTo: RefusalPosition): Promise<number>;
  /** Returns the position of the newest row that is not among the `kept` newest rows; null if there is none. */
  excess(kept: number): Promise<RefusalPosition | null>;
  /** Returns a page of refusals; undefined for a cursor of another order or of no list. */
  list(query: RefusalQuery): Promise<RefusalPage | undefined>;
  /** Adds up the refusals of a span by cause. */
  causes(query: RefusalCauseQuery): Promise<RefusalCauses>;
  /** Counts the refusals of a span, whose edges are rounded to minutes. */
  count(query: RefusalCountQuery): Promise<readonly RefusalCount[]>;
}
