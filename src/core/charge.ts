import type { Billing, Formula } from "./cost.ts";
import type { Doubt, TokenCounts } from "./usage.ts";
import { noMoney, picoUsdMax, type PicoUsd } from "./money.ts";
import type { HoldBasis } from "./bounds.ts";
import type { ChargeRun } from "./runs.ts";
import type { Consumption } from "./tasks.ts";
import { dayMs } from "./time.ts";

/**
 * Kind of a hold. The answer settles the hold of a request. Only the task's record settles the hold of a task with a
 * known id.
 */
export type HoldKind = "request" | "task";

export type ChargeState = "pending" | "posted" | "voided";

/**
 * Source of an amount. `reported`: usage reported by the gateway. `counted`: tiktoken's count of the complete answer.
 * `partial`: tiktoken's count of the part that was delivered before the answer was cut. `assumed`: the hold.
 */
export const sources = ["reported", "counted", "partial", "assumed"] as const;
export type Source = (typeof sources)[number];

/** Tokens of a request and of the answer that arrived, as Farebox counted them, without error margins. */
export interface Delivered {
  readonly input: number;
  readonly output: number;
}

/** One row of the ledger. Times are milliseconds since 1970 UTC. */
export interface Charge {
  readonly id: string;
  readonly kind: HoldKind;
  readonly state: ChargeState;
  /** Time of admission. Every window, rollup and report uses it as the time of the charge. */
  readonly at: number;
  readonly endedAt: number | null;
  readonly key: string;
  readonly team: string | null;
  readonly route: string;
  /** The requested model. */
  readonly model: string;
  readonly servedModel: string | null;
  readonly group: string | null;
  readonly stream: boolean;
  readonly priceId: string | null;
  /**
   * Price of the model that answered, if it is not the requested one. The charge uses the price with the larger cost.
   */
  readonly servedPriceId: string | null;
  /** Null for a model without a price. */
  readonly hold: PicoUsd | null;
  /** Basis of the hold at admission; null for endpoints without an output limit, and in rows of earlier versions. */
  readonly basis: HoldBasis | null;
  readonly cost: PicoUsd | null;
  readonly listCost: PicoUsd | null;
  readonly overage: PicoUsd;
  readonly formula: Formula | null;
  readonly source: Source | null;
  readonly minimumApplied: boolean;
  /** True if the gateway's usage contradicted itself. The more expensive interpretation was then posted. */
  readonly clamped: boolean;
  readonly tokens: TokenCounts;
  /** Terms of the answer, without its runs. */
  readonly billing: Billing;
  /** Runs of the model with a tier or price of their own; empty if the tokens cost as much as those of one run. */
  readonly runs: readonly ChargeRun[];
  /** Reasons why the cost may differ from the bill. */
  readonly doubts: readonly Doubt[];
  /**
   * The whole cost if there are doubts, 0 otherwise. For a row that replaces pruned charges: the sum of their
   * `inDoubt`.
   */
  readonly inDoubt: PicoUsd;
  /** Tokens that Farebox counted, without estimates; null if it counted none, and in rows of earlier versions. */
  readonly delivered: Delivered | null;
  /** HTTP status that the client received; null while pending and after a crash. */
  readonly status: number | null;
  /** Short reason such as `client_left`; set for voided, partial and assumed charges. */
  readonly reason: string | null;
  readonly gatewayRequestId: string | null;
  readonly durationMs: number | null;
  readonly firstTokenMs: number | null;
  readonly tags: Readonly<Record<string, string>>;
  /** User that the request named; null for none. */
  readonly user: string | null;
  /** Labels of the key at the time of the request. */
  readonly labels: Readonly<Record<string, string>>;
  /**
   * Catalogue models for which budgets count the charge: all that may answer while it is pending; one after it is
   * settled.
   */
  readonly models: readonly string[];
  /**
   * Consumption of a task in the gateway's units, from the task's final record; null while the task runs, and for
   * requests.
   */
  readonly consumption: Consumption | null;
  /** Number of earlier attempts, as stated by the client's SDK; 0 for the first attempt. */
  readonly retry: number;
  /**
   * Charge that this row corrects; null if the row is not a correction. In a correction, `cost` is the difference, `at`
   * is the charge's time, `endedAt` is the time of the correction, and `reason` is the author's explanation.
   */
  readonly adjusts: string | null;
  /** Author of a correction. */
  readonly adjustedBy: string | null;
}

type CorrectionFault = "not_posted" | "is_adjustment" | "below_zero" | "too_large";

/**
 * Returns why a charge cannot be corrected by this amount; null if it can. `corrected` is the sum of the earlier
 * corrections. A charge without a price counts as 0, so that its cost can be added later.
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

/** Age at which quarter-hour sums are deleted, in milliseconds. */
export const quartersKeptMs = 35 * dayMs;

/**
 * Smallest age at which charges are pruned, in milliseconds. It protects the current windows of all periods except
 * `total`, and the quarter hours that are kept.
 */
export const pruneAgeMsMin = 36 * dayMs;
