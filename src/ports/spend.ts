import type { PicoUsd } from "../core/money.ts";

export const spendDimensions = ["key", "team", "model", "group"] as const;
export type SpendDimension = (typeof spendDimensions)[number];

/** Selects the spend of posted charges by time of admission. Reads only the rollups, so it is cheaper than a report. */
export interface SpendQuery {
  readonly by: readonly SpendDimension[];
  /**
   * `day`: a row per day of the time zone. `hour`: a row per 60 minutes, counted from `since`. `all`: a row for the span.
   * The span is half-open. Its edges are whole quarter hours; for `day`, they are starts of days.
   */
  readonly each: "day" | "hour" | "all";
  readonly since: number;
  readonly until: number;
  /** Only charges of the key with this id. */
  readonly key?: string;
  /** Names of the first dimension to list separately. All other names are combined into `otherNames`. */
  readonly apart?: readonly (string | null)[];
}

/** Represents all names that are not listed separately. No name contains it. */
export const otherNames = "\0others";

export interface SpendRow {
  /** Start of the row's day or hour; `since` for the whole span. */
  readonly start: number;
  /** Names in the order of `by`; null if missing. */
  readonly names: readonly (string | null)[];
  readonly requests: number;
  readonly unpricedRequests: number;
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  /** Part of the cost from charges with doubts. */
  readonly inDoubt: PicoUsd;
}

/** Filters for the latest charges. With a cursor, only those that began or ended since an earlier query. */
export interface RecentQuery {
  readonly key?: string;
  readonly team?: string;
  readonly model?: string;
  readonly state?: "pending" | "posted" | "voided";
  /** 1 to 1000. */
  readonly limit: number;
  /** Cursor of an earlier query. */
  readonly after?: RecentCursor;
}

/** Position of a query: the number of rows and the latest end among them. Milliseconds since 1970 UTC. */
export interface RecentCursor {
  readonly written: number;
  readonly endedAt: number;
}
