import type { PicoUsd } from "../core/money.ts";

export const spendDimensions = ["key", "team", "model", "group"] as const;
export type SpendDimension = (typeof spendDimensions)[number];

/**
 * What was spent over time, from the rollups alone: posted charges by their admission's time. Cheaper than a report, which says
 * more of each row.
 */
export interface SpendQuery {
  readonly by: readonly SpendDimension[];
  /**
   * `day`: one row for each day of the time zone. `hour`: one for each 60 minutes from `since` on. `all`: one for the span.
   * Half-open; edges are whole quarter hours, and for days their beginnings.
   */
  readonly each: "day" | "hour" | "all";
  readonly since: number;
  readonly until: number;
  /** Only of this key's id. */
  readonly key?: string;
  /** The names of the first dimension that are told apart; all others are one, `otherNames`. */
  readonly apart?: readonly (string | null)[];
}

/** Represents all names that are not listed separately. No name contains it. */
export const otherNames = "\0others";

export interface SpendRow {
  /** Start of its day or hour; `since` for the whole span. */
  readonly start: number;
  /** In the order of `by`; null where there is none. */
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
