import type { Billing } from "./cost.ts";
import type { Doubt, TokenCounts } from "./usage.ts";
import { noMoney, picoUsdMax, type PicoUsd } from "./money.ts";
import type { HoldBasis } from "./bounds.ts";
import type { Delivered } from "./settlement.ts";
import type { Consumption } from "./tasks.ts";

/** Kind of a hold. A request settles with its answer; a task with a known id settles by its record only. */
export type HoldKind = "request" | "task";

export type ChargeState = "pending" | "posted" | "voided";

/**
 * Source of an amount. `reported`: the gateway's usage. `counted`: tiktoken on the whole answer. `partial`: tiktoken on
 * the part delivered before a cut. `assumed`: the hold itself.
 */
export const sources = ["reported", "counted", "partial", "assumed"] as const;
export type Source = (typeof sources)[number];

/**
 * Formula of an amount, to recompute it. `tokens`, `per_request`: from the price version. `assumed`: the hold.
 * `unpriced`: no amount. `task`, `adjustment`: stated by the row.
 */
export type Formula = "tokens" | "per_request" | "task" | "assumed" | "adjustment" | "unpriced";

/** One row of the ledger. Times are milliseconds since 1970 UTC. */
export interface Charge {
  readonly id: string;
  readonly kind: HoldKind;
  readonly state: ChargeState;
  /** Time of admission, and the charge's time in every window, rollup and report. */
  readonly at: number;
  readonly endedAt: number | null;
  readonly key: string;
  readonly team: string | null;
  readonly route: string;
  /** Model that the request asked for. */
  readonly model: string;
  readonly servedModel: string | null;
  readonly group: string | null;
  readonly stream: boolean;
  readonly priceId: string | null;
  /** Price of the model that answered, if it is another one. The cost is the larger of both. */
  readonly servedPriceId: string | null;
  /** Null for a model without a price. */
  readonly hold: PicoUsd | null;
  /** Basis of the hold at admission; null where no text is limited, and in rows of earlier versions. */
  readonly basis: HoldBasis | null;
  readonly cost: PicoUsd | null;
  readonly listCost: PicoUsd | null;
  readonly overage: PicoUsd;
  readonly formula: Formula | null;
  readonly source: Source | null;
  readonly minimumApplied: boolean;
  /** True if the gateway's usage contradicted itself and the more expensive reading was taken. */
  readonly clamped: boolean;
  readonly tokens: TokenCounts;
  readonly billing: Billing;
  /** Reasons why the amount may differ from the bill. */
  readonly doubts: readonly Doubt[];
  /** The whole cost if there are doubts, else 0. A carried sum keeps that of its charges. */
  readonly inDoubt: PicoUsd;
  /** Tokens that were counted, without estimates; null where nothing was, and in rows of earlier versions. */
  readonly delivered: Delivered | null;
  /** Status sent to the client; null while pending and after a crash. */
  readonly status: number | null;
  /** Short reason such as `client_left`, for voided, partial and assumed charges. */
  readonly reason: string | null;
  readonly gatewayRequestId: string | null;
  readonly durationMs: number | null;
  readonly firstTokenMs: number | null;
  readonly tags: Readonly<Record<string, string>>;
  /**
   * Consumption of a task in the gateway's units, from its last record; null for other charges and while the task runs.
   */
  readonly consumption: Consumption | null;
  /** Earlier attempts, as stated by the client's SDK: 0 for a first one. */
  readonly retry: number;
  /**
   * Corrected charge, for a correction. The correction's amount is the difference, its time the charge's, `endedAt` its
   * own; `reason` says why.
   */
  readonly adjusts: string | null;
  /** Author of a correction. */
  readonly adjustedBy: string | null;
}

type CorrectionFault = "not_posted" | "is_adjustment" | "below_zero" | "too_large";

/**
 * Returns why a charge cannot be corrected by an amount; null when it can. `corrected` is the sum of its corrections so
 * far. A charge without a price counts as 0, so its cost can be added later.
 */
export function correctionFault(
  { state, formula, cost }: Pick<Charge, "state" | "formula" | "cost">,
  corrected: bigint,
  amount: PicoUsd,
): CorrectionFault | null {
  if (state !== "posted") return "not_posted";
  if (formula === "adjustment") return "is_adjustment";
  const total = (cost ?? noMoney) + corrected + amount;
  if (total < 0n) return "below_zero";
  return total > picoUsdMax ? "too_large" : null;
}

const dayMs = 86_400_000;

/** Age up to which quarter-hour sums are kept, in milliseconds. */
export const quartersKeptMs = 35 * dayMs;

/**
 * Smallest age at which charges are pruned, in milliseconds. The current windows of every period but `total`, and the
 * kept quarter hours, are then newer than what is pruned.
 */
export const pruneAgeMsMin = 36 * dayMs;
