import type { ChargeDetailsJson } from "../reporting/shapes/charges.ts";
import type { StandingJson } from "../reporting/shapes/budgets.ts";
import type { KeyJson, NewKeyJson, RotatedKeyJson } from "../reporting/shapes/keys.ts";
import type { ListedKeyJson } from "../reporting/shapes/lists.ts";
import type { OverviewJson } from "../reporting/shapes/figures.ts";

/* Types of the server's answers. Files outside this folder provide only types, so the browser loads none of them. */

export type * from "../reporting/shapes/budgets.ts";
export type * from "../reporting/shapes/charges.ts";
export type * from "../reporting/shapes/figures.ts";
export type * from "../reporting/shapes/health.ts";
export type * from "../reporting/shapes/keys.ts";
export type * from "../reporting/shapes/lists.ts";
export type * from "../reporting/shapes/prices.ts";

/** Amount in USD, as a decimal string. */
export type Usd = string;
/** Time in ISO 8601. */
export type Iso = string;

export type Series = OverviewJson["series"];
export type Spender = OverviewJson["top"]["models"][number] & Partial<OverviewJson["top"]["keys"][number]>;
export type Source = NonNullable<ChargeDetailsJson["source"]>;
export type Item = ChargeDetailsJson["items"][number];
export type PriceUsed = NonNullable<ChargeDetailsJson["price"]>;
export type Usage = ListedKeyJson["usage"];
export type Limits = KeyJson["limits"];
/** Key that was just created or rotated, including its text. */
export type NewKey = NewKeyJson | RotatedKeyJson;

type SpanName = NonNullable<OverviewJson["span"]["name"]>;
export const spans: readonly SpanName[] = ["24h", "7d", "30d", "90d"];
export type Grouping = Series["by"];
export const groupings: readonly Grouping[] = ["model", "key", "team", "group"];
export type Period = StandingJson["period"];
