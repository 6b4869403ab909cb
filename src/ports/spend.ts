import type { PicoUsd } from "../core/money.ts";

export const spendDimensions = ["key", "team", "model", "group"] as const;
export type SpendDimension = (typeof spendDimensions)[number];

/** Limits sums to one key, team or model. */
export interface SpendFilter {
  /** Id of the key. */
  readonly key?: string;
  readonly team?: string;
  readonly model?: string;
}

/** Selects the spend of posted charges by time of admission. Reads only the rollups, so it is cheaper than a report. */
export interface SpendQuery extends SpendFilter {
  readonly by: readonly SpendDimension[];
  /**
   * `day` and `month`: one row for each day or month of the time zone. `hour`: one row for each 60 minutes, counted
   * from `since`. `all`: one row for the span. The half-open span starts and ends at whole quarter hours; for `day` and
   * `month`, at the starts of days.
   */
  readonly each: "month" | "day" | "hour" | "all";
  readonly since: number;
  readonly until: number;
  /**
   * Names of the first dimension that get their own rows; absent if all names do. The remaining names are combined into
   * `otherNames`.
   */
  readonly apart?: readonly (string | null)[];
}

/** Stands for all names that have no separate row. No real name has this value. */
export const otherNames = "\0others";

export interface SpendRow {
  /** Start of the row's month, day or hour; `since` for the whole span. */
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

/** Filters for the latest charges. With a cursor, selects only charges that began or ended since the earlier query. */
export interface RecentQuery {
  readonly key?: string | undefined;
  readonly team?: string | undefined;
  readonly model?: string | undefined;
  readonly state?: "pending" | "posted" | "voided" | undefined;
  /** 1 to 1000. */
  readonly limit: number;
  /** Cursor of an earlier query. */
  readonly after?: RecentCursor | undefined;
}

/** Position in the ledger: the number of rows, and the latest end among them in milliseconds since 1970 UTC. */
export interface RecentCursor {
  readonly written: number;
  readonly endedAt: number;
}
