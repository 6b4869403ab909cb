/*
 * What the server answers, as docs/admin-api.md has it. Amounts are decimal strings in USD, times ISO 8601.
 */

export type Usd = string;
export type Iso = string;

export type Session =
  | { readonly kind: "none" }
  | (SignedIn & { readonly kind: "admin"; readonly role: "editor" | "viewer" })
  | (SignedIn & { readonly kind: "key"; readonly team: string | null });

interface SignedIn {
  readonly name: string;
  readonly expires_at: Iso;
  readonly time_zone: string;
  readonly version: string;
}

export const spans = ["24h", "7d", "30d", "90d"] as const;
export type SpanName = (typeof spans)[number];
export const groupings = ["model", "key", "team", "group"] as const;
export type Grouping = (typeof groupings)[number];

interface Sums {
  readonly requests: number;
  readonly cost_usd: Usd;
  readonly list_cost_usd: Usd;
  readonly saving_usd: Usd;
}

export interface Balance {
  readonly balance_usd: Usd | null;
  readonly available_credits: number | null;
  readonly fetched_at: Iso;
  readonly stale: boolean;
  readonly burn_usd_per_hour: Usd;
  readonly hours_left: number | null;
}

export interface SeriesRow {
  readonly cost_usd: Usd;
  readonly requests: number;
  readonly values: readonly Usd[];
}

export interface Series {
  readonly by: Grouping;
  readonly bucket: "hour" | "day";
  readonly starts: readonly Iso[];
  readonly rows: readonly (SeriesRow & { readonly name: string | null })[];
  readonly other: (SeriesRow & { readonly count: number }) | null;
}

export interface Spender {
  readonly name: string | null;
  readonly team?: string | null;
  readonly requests: number;
  readonly cost_usd: Usd;
  readonly saving_usd: Usd;
}

export interface Overview {
  readonly now: Iso;
  readonly time_zone: string;
  readonly today: Sums & { readonly since: Iso; readonly yesterday_by_now_usd: Usd };
  readonly month: Sums & { readonly since: Iso; readonly until: Iso };
  readonly forecast: { readonly month_end_usd: Usd; readonly usd_per_hour: Usd; readonly from: Iso } | null;
  readonly balance: Balance | null;
  readonly span: Sums & {
    readonly name: SpanName;
    readonly since: Iso;
    readonly until: Iso;
    readonly unpriced_requests: number;
    readonly cost_in_doubt_usd: Usd;
  };
  readonly series: Series;
  readonly top: { readonly keys: readonly Spender[]; readonly models: readonly Spender[] };
  readonly empty: { readonly keys: boolean; readonly charges: boolean };
}

export type Tokens = Readonly<Record<string, number>>;
export type State = "pending" | "posted" | "voided";
export type Source = "reported" | "counted" | "partial" | "assumed";

export interface Charge {
  readonly request_id: string;
  readonly gateway_request_id: string | null;
  readonly time: Iso;
  readonly key: string | null;
  readonly team: string | null;
  readonly route: string;
  readonly model: string;
  readonly served_model: string | null;
  readonly group: string | null;
  readonly state: State;
  readonly source: Source | null;
  readonly stream: boolean;
  readonly status: number | null;
  readonly tokens: Tokens;
  readonly cost_usd: Usd | null;
  readonly list_cost_usd: Usd | null;
  readonly minimum_applied: boolean;
  readonly hold_usd: Usd | null;
  readonly held_for: { readonly output_tokens: number | null; readonly by: string } | null;
  readonly output_cap: number | null;
  readonly fitted: number | null;
  readonly overage_usd: Usd;
  readonly price_version: string | null;
  readonly duration_ms: number | null;
  readonly first_token_ms: number | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly correction: {
    readonly of: string;
    readonly by: string | null;
    readonly at: Iso;
    readonly why: string | null;
  } | null;
  readonly doubts: readonly string[];
  readonly cost_in_doubt_usd: Usd;
  readonly service_tier: string | null;
  readonly tool_calls: Readonly<Record<string, number>>;
  readonly delivered: { readonly input: number; readonly output: number } | null;
  readonly units: string | null;
  readonly unit_type: string | null;
  readonly served_price_version: string | null;
}

export interface Item {
  readonly class: string;
  /** Of a fee, the type of the tool's calls. */
  readonly tool: string | null;
  readonly tokens: number;
  readonly usd_per_million: string | null;
  readonly cost_usd: Usd;
  readonly list_usd_per_million: string | null;
  readonly list_cost_usd: Usd;
  readonly tier_from: number;
}

export interface ChargeDetails extends Charge {
  readonly corrections: readonly Charge[];
  readonly total_usd: Usd | null;
  readonly ended_at: Iso | null;
  readonly formula: string | null;
  readonly reason: string | null;
  readonly clamped: boolean;
  readonly retry: number;
  readonly items: readonly Item[];
  readonly price: PriceUsed | null;
  readonly served_price: PriceUsed | null;
  readonly known: string;
}

export interface PriceUsed {
  readonly model: string;
  readonly from: string;
  readonly source: string;
  readonly fraction: string | null;
  readonly minimum: { readonly tokens: number; readonly usd: Usd };
}

export interface Limits {
  readonly rpm: number | null;
  readonly tpm: number | null;
  readonly parallel: number | null;
}

export interface Key {
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
  readonly models: readonly string[] | null;
  readonly limits: Limits;
  readonly output_cap: number | null;
  readonly created_at: Iso;
  readonly expires_at: Iso | null;
  readonly revoked_at: Iso | null;
  readonly rotated_at: Iso | null;
  readonly previous_valid_until: Iso | null;
  readonly state: "live" | "expired" | "revoked";
}

/** A key that was just made or rotated, with its text: the only time that it is seen. */
export interface NewKey {
  readonly name: string;
  readonly key: string;
  readonly previous_valid_until?: Iso | null;
}

export interface Standing {
  readonly scope: string;
  readonly key: string | null;
  readonly period: Period;
  readonly mode: "hard" | "soft";
  readonly limit_usd: Usd;
  readonly spent_usd: Usd;
  readonly held_usd: Usd;
  readonly remaining_usd: Usd;
  readonly warn_percent: number | null;
  readonly starts_at: Iso;
  readonly resets_at: Iso | null;
}

export const periods = ["total", "1h", "1d", "1w", "1mo"] as const;
export type Period = (typeof periods)[number];

export interface Team {
  readonly name: string;
  readonly models: readonly string[] | null;
  readonly limits: Limits;
  readonly output_cap: number | null;
  readonly keys: readonly string[];
}

export interface Me {
  readonly key: {
    readonly name: string;
    readonly team: string | null;
    readonly models: readonly string[] | null;
    readonly expires_at: Iso | null;
  } | null;
  readonly limits: Readonly<
    Record<keyof Limits, { readonly scope: string; readonly limit: number; readonly remaining: number } | null>
  >;
  readonly output_cap: number | null;
  readonly fitted: {
    readonly request_id: string;
    readonly time: Iso;
    readonly model: string;
    readonly max_output_tokens: number;
  } | null;
  readonly budgets: readonly Standing[];
}

export type Rates = Readonly<Record<string, string>>;

export interface Price {
  readonly id: string;
  readonly from: string;
  readonly until: string | null;
  readonly source: string;
  readonly fraction: string | null;
  readonly tier_mode: string;
  readonly tiers: readonly {
    readonly from_prompt_tokens: number;
    readonly gateway_usd_per_million: Rates;
    readonly official_usd_per_million: Rates;
  }[];
  readonly per_request_usd: { readonly gateway: Usd; readonly official: Usd } | null;
  readonly minimum: { readonly tokens: number; readonly usd: Usd };
  readonly service_tiers: readonly { readonly service_tier: string; readonly tiers: Price["tiers"] }[];
  readonly fees: readonly { readonly tool: string; readonly gateway_usd: Usd; readonly official_usd: Usd }[];
}

export interface PricedModel {
  readonly id: string;
  readonly provider: string | null;
  readonly group: string | null;
  /** What its rates are for a million of. */
  readonly unit: "token" | "second" | "character";
  readonly price: Price | null;
}

export interface PriceHistory {
  readonly id: string;
  readonly aliases: readonly string[];
  readonly entries: readonly {
    readonly starts_at: Iso | null;
    readonly in_force: boolean;
    readonly group: string | null;
    readonly price: Price | null;
  }[];
}

export interface Reconciliation {
  readonly ok: boolean;
  readonly since: Iso;
  readonly until: Iso;
  readonly samples: number;
  readonly requests: number;
  readonly ledger_usd: Usd;
  readonly cost_in_doubt_usd: Usd;
  readonly gateway_usd: Usd;
  readonly difference_usd: Usd;
  readonly difference_percent: number | null;
  readonly factor: { readonly value: string; readonly from: string | null; readonly to: string | null } | null;
  readonly explained_by: readonly { readonly group: string; readonly fraction: string; readonly instead_of: string }[];
  readonly uncertainty: { readonly below_usd: Usd; readonly above_usd: Usd | null };
  readonly movements: readonly { readonly kind: string; readonly usd: Usd; readonly estimate: boolean }[];
}

export interface Alert {
  readonly id: string;
  readonly type: string;
  readonly time: Iso;
  readonly severity: "warning" | "critical";
  readonly title: string;
  readonly text: string;
  readonly delivery: {
    readonly state: "waiting" | "delivered" | "given_up" | "unsent";
    readonly last_error: string | null;
  };
}

export interface Health {
  readonly now: Iso;
  readonly version: string;
  readonly started_at: Iso;
  readonly ready: boolean;
  readonly reconciliation: Reconciliation | null;
  readonly reconciliation_missing: string | null;
  readonly pending: {
    readonly count: number;
    readonly oldest_at: Iso | null;
    readonly old: readonly {
      readonly request_id: string;
      readonly key: string | null;
      readonly held_since: Iso;
      readonly hold_usd: Usd | null;
      readonly orphaned: boolean;
    }[];
  };
  /** Models whose streams came at once. */
  readonly stream_bursts: readonly {
    readonly model: string;
    /** Null for all keys. */
    readonly key: string | null;
    readonly all_keys: boolean;
    readonly since: Iso;
    readonly live_streams: number;
  }[];
  readonly gateway: {
    readonly since: Iso;
    readonly requests: number;
    readonly errors: number;
    readonly by_status: Readonly<Record<string, number>>;
    readonly minutes: {
      readonly starts: readonly Iso[];
      readonly requests: readonly number[];
      readonly errors: readonly number[];
    };
    readonly last: readonly {
      readonly request_id: string;
      readonly time: Iso;
      readonly model: string;
      readonly status: number | null;
    }[];
  };
  readonly alerts: { /** Of the last 24 hours. */ readonly day: number; readonly latest: readonly Alert[] };
  readonly prices: {
    readonly digest: string;
    readonly models: number;
    readonly reviewed_on: string | null;
    readonly age_days: number | null;
    readonly review_due: boolean;
  };
}
