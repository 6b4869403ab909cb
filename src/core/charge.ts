import type { Billing } from "./cost.ts";
import type { Doubt } from "./doubts.ts";
import type { PicoUsd } from "./money.ts";
import type { HoldBasis } from "./output-cap.ts";
import type { Delivered } from "./settlement.ts";
import type { Consumption } from "./tasks.ts";
import type { TokenCounts } from "./tokens.ts";

/** What a hold is for: a request ends with its answer, a task whose id is known by its own record only. */
export type HoldKind = "request" | "task";

export type ChargeState = "pending" | "posted" | "voided";

/**
 * How an amount is known: `reported` by the gateway's usage, `counted` with tiktoken on the whole answer,
 * `partial` counted on what was delivered before a cut, `assumed` to be the hold.
 */
export const sources = ["reported", "counted", "partial", "assumed"] as const;
export type Source = (typeof sources)[number];

/**
 * What an amount was computed from, so that it can be recomputed: `tokens` and `per_request` from the price version,
 * `assumed` is the hold itself, `unpriced` has no amount, `task` and `adjustment` state theirs.
 */
export type Formula = "tokens" | "per_request" | "task" | "assumed" | "adjustment" | "unpriced";

/** One row of the ledger. Times are milliseconds since 1970 UTC. */
export interface Charge {
  readonly id: string;
  readonly kind: HoldKind;
  readonly state: ChargeState;
  /** When it was admitted; this is the charge's time in every window, rollup and report. */
  readonly at: number;
  readonly endedAt: number | null;
  readonly key: string;
  readonly team: string | null;
  readonly route: string;
  /** The model that was asked for. */
  readonly model: string;
  readonly servedModel: string | null;
  readonly group: string | null;
  readonly stream: boolean;
  readonly priceId: string | null;
  /** The price of the model that answered, where it is another one than was asked for: the cost is the larger of both. */
  readonly servedPriceId: string | null;
  /** Null for a model without a price. */
  readonly hold: PicoUsd | null;
  /** What the hold was computed from at the admission; null where no text is limited, and in rows of earlier versions. */
  readonly basis: HoldBasis | null;
  readonly cost: PicoUsd | null;
  readonly listCost: PicoUsd | null;
  readonly overage: PicoUsd;
  readonly formula: Formula | null;
  readonly source: Source | null;
  readonly minimumApplied: boolean;
  /** Whether the gateway's usage contradicted itself and was read to the dearer side. */
  readonly clamped: boolean;
  readonly tokens: TokenCounts;
  readonly billing: Billing;
  /** Why the amount may differ from the bill. */
  readonly doubts: readonly Doubt[];
  /** All of the cost where there are doubts, else nothing. Of a carried sum, what its charges had. */
  readonly inDoubt: PicoUsd;
  /** The tokens that were plainly counted, apart from estimates; null where nothing was, and in rows of earlier versions. */
  readonly delivered: Delivered | null;
  /** The status that the client was answered with; null while pending and after a crash. */
  readonly status: number | null;
  /** Why it ended as it did, for voided, partial and assumed charges: a short word such as `client_left`. */
  readonly reason: string | null;
  readonly gatewayRequestId: string | null;
  readonly durationMs: number | null;
  readonly firstTokenMs: number | null;
  readonly tags: Readonly<Record<string, string>>;
  /** What its task used up in the gateway's units, as its last record states it; null for what is no task, and while it runs. */
  readonly consumption: Consumption | null;
  /** How often the client's SDK had sent the request before, as it said itself: 0 for a first try. */
  readonly retry: number;
  /** For a correction: which charge it corrects. Its amount is the difference, its time that charge's, `endedAt` its own; `reason` says why. */
  readonly adjusts: string | null;
  /** For a correction: who made it. */
  readonly adjustedBy: string | null;
}
