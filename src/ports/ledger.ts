import type { LedgerTotals } from "../core/account.ts";
import type { Budget, BudgetWindow, Caller, Shortage } from "../core/budget.ts";
import type { Charge, ChargeState, HoldKind } from "../core/charge.ts";
import type { ChargePrices } from "../core/cost.ts";
import type { PicoUsd } from "../core/money.ts";
import type { HoldBasis } from "../core/bounds.ts";
import type { PriceVersion } from "../core/price.ts";
import type { RawUnits } from "../core/task-settlement.ts";
import type { CorrectionMade } from "../core/reconciliation.ts";
import type { Settlement } from "../core/settlement.ts";
import type { BurstMark, StreamObservation } from "../core/slices.ts";
import type { TokenCounts } from "../core/usage.ts";
import type { ChargeInputs, NotRecomputed, Recomputed } from "../core/what-if.ts";
import type { RecentCursor, RecentQuery, SpendQuery, SpendRow } from "./spend.ts";

/**
 * Charges of requests, from the hold to the settlement: a hold is placed, may be extended, and is then posted or voided, once.
 * Every call is idempotent by the charge's id. A promise that resolves with `ok` is durable; `unavailable` means that nothing
 * was written. Money is counted by the rules of `core/`, the same in every store; one contract suite runs against all of them.
 */
export interface Charging {
  /**
   * Inserts a pending charge and reserves its amount in every window that applies to the caller. One transaction; only
   * if every hard window has room. A missing window is built from its charges.
   */
  hold(request: HoldRequest): Promise<HoldResult>;
  /** Extends a pending hold by as much of `amount` as every hard window has room for, or not at all below `atLeast`. */
  extend(id: string, amount: PicoUsd, atLeast: PicoUsd): Promise<ExtendResult>;
  /**
   * Settles a hold with an amount. Never refused for lack of room; a repeat returns the first result. After `recover`
   * posted it, the first settlement corrects the charge to its amount.
   */
  post(id: string, posting: Posting, end: ChargeEnd): Promise<SettleResult>;
  /** Settles a hold without an amount. A repeat returns the first result, and corrects as `post` does. */
  void(id: string, reason: string, end: ChargeEnd): Promise<SettleResult>;
  /**
   * Stores for two days what was written into a request with an idempotency key. Returns the first value, null for
   * none; `written` null only reads.
   */
  writtenFor(idempotency: string, written: string | null, at: number): Promise<WrittenResult>;
  /** Stores what a watched stream showed of its model; null only reads. Returns all marks. */
  burstMarks(seen: StreamObservation | null, at: number): Promise<BurstMarksResult>;
}

/** Budgets and their windows. */
export interface BudgetStore {
  /**
   * Adds a budget, or changes the one of the same scope and period, and opens its current window from the charges.
   * `by`: author for the audit; farebox itself unless given.
   */
  setBudget(budget: Omit<Budget, "id">, at: number, by?: string): Promise<Budget>;
  /** False when there is none of that scope and period. */
  removeBudget(scope: string, period: string, at: number, by?: string): Promise<boolean>;
  /** All budgets, in the order of their creation. */
  budgets(): Promise<readonly Budget[]>;
  /** Every budget's window at the instant; for `eachKey`, one for each key that has one. */
  windows(at: number): Promise<readonly BudgetWindow[]>;
  /** Returns the windows that apply to a caller at the instant, including those that no hold has opened yet. */
  windowsOf(caller: Caller, at: number): Promise<readonly BudgetWindow[]>;
  /**
   * Returns at most `limit` windows at the instant with an alert that is not in the outbox yet. A running proxy does
   * not compute this on the thread that answers requests.
   */
  windowsToAlert(at: number, limit: number): Promise<readonly BudgetWindow[]>;
}

/** Prices that charges were computed from. */
export interface StoredPrices {
  /** Returns the price version that charges name; undefined for an id that came with no hold. */
  price(id: string): Promise<PriceVersion | undefined>;
}

/** Charges for an export. */
export interface ChargeStream extends StoredPrices {
  /**
   * Reads all charges of the span in any state, oldest first, in parts. One snapshot is kept until the iteration ends.
   */
  stream(span: TimeSpan): AsyncIterable<readonly Charge[]>;
}

/** Queries of charges and of sums of them. */
export interface LedgerQueries extends ChargeStream {
  charge(id: string): Promise<Charge | undefined>;
  /** Newest first. */
  charges(query: ChargeQuery): Promise<ChargePage>;
  /**
   * Returns matching charges among the last 5,000 written, newest first; cheap enough to poll each second. After a
   * cursor, those written or ended since, and perhaps some that ended shortly before.
   */
  recent(query: RecentQuery): Promise<{ readonly charges: readonly Charge[]; readonly cursor: RecentCursor }>;
  report(query: ReportQuery & OfSession): Promise<readonly ReportRow[]>;
  /** Returns the consumption of posted tasks in the span in units that no price file values, by type of unit. */
  rawUnits(span: TimeSpan): Promise<readonly RawUnits[]>;
  /** Returns rows ordered by time, then by names. */
  spend(query: SpendQuery): Promise<readonly SpendRow[]>;
  /**
   * Returns a `report` from the charges themselves, with the amounts that `recompute` gives. Reads a page at a time, so
   * it may take long and blocks nothing. A charge posted meanwhile is fully in it or not at all. `onProgress` gets the
   * share done, from 0 to 1.
   */
  whatIf(
    query: ReportQuery,
    recompute: (charge: ChargeInputs) => Recomputed,
    onProgress?: (share: number) => void,
  ): Promise<readonly WhatIfRow[]>;
  /** Returns the end of the last day whose charges retention turned into sums; null for none. */
  prunedUntil(): Promise<number | null>;
  pending(): Promise<{ readonly count: number; readonly oldestAt: number | null }>;
  /** Returns the ledger's counters since its beginning, from one snapshot; retention does not change them. */
  totals(): Promise<LedgerTotals>;
  /** Returns corrections made in the half-open span, and those of charges that ended in it, in order. */
  corrections(since: number, until: number): Promise<readonly CorrectionMade[]>;
  /**
   * Returns pending holds admitted before the instant, oldest first, at most 1000, without those of tasks known to run.
   */
  oldHolds(before: number): Promise<readonly OldHold[]>;
}

/** Corrections, recovery and checks. */
export interface LedgerMaintenance {
  /**
   * Adds a correction of a posted charge: a new row, never an edit. It has the charge's time, so it changes the
   * windows, days and reports of the charge.
   */
  adjust(id: string, correction: Correction): Promise<AdjustResult>;
  /**
   * Posts, as `assumed`, the pending holds whose owner no longer runs. Called only by `serve`. The hold of a task with
   * a known id stays: the task settles it.
   */
  recover(at: number): Promise<number>;
  /** Reports that a hold could be written now, by a durable write that changes nothing. */
  isWritable(): Promise<boolean>;
  /**
   * Compares every stored sum and amount with its charges, from one snapshot. `onProgress` gets the share of charges
   * done, unless another thread does the work.
   */
  verify(onProgress?: (share: number) => void): Promise<Verification>;
}

/** All that a store does with charges and budgets. A user takes the part that it needs. */
export interface Ledger extends Charging, BudgetStore, LedgerQueries, LedgerMaintenance {}

/** Returns the prices that a charge was computed from; undefined if it has none, or one is not stored. */
export async function pricesOf(
  ledger: StoredPrices,
  { priceId, servedPriceId }: Pick<Charge, "priceId" | "servedPriceId">,
): Promise<ChargePrices | undefined> {
  const price = priceId === null ? undefined : await ledger.price(priceId);
  const servedPrice = servedPriceId === null ? null : await ledger.price(servedPriceId);
  return price === undefined || servedPrice === undefined ? undefined : { price, servedPrice };
}

/** The store cannot be reached or written (a full disk, a lost file). Nothing was changed; the message says why. */
export class LedgerUnavailable extends Error {}

export type { RawUnits };

/** The posting half of a settlement. */
export type Posting = Extract<Settlement, { kind: "post" }>;

export interface HoldRequest {
  readonly id: string;
  readonly kind: HoldKind;
  /** The admission's time, milliseconds since 1970 UTC. */
  readonly at: number;
  readonly caller: Caller;
  readonly route: string;
  readonly model: string;
  readonly group: string | null;
  readonly stream: boolean;
  /** Stored with its canonical text no later than its first hold. */
  readonly price: { readonly id: string; readonly canonical: string } | null;
  /** Null for a model without a price. */
  readonly amount: PicoUsd | null;
  /** Reserved instead of `amount` if a hard budget applies: the hold then grows by `extend`. */
  readonly firstSlice?: PicoUsd;
  /** Basis of `amount`; absent where no text is limited. */
  readonly basis?: HoldBasis | null;
  /** Output tokens that `firstSlice` covers. */
  readonly sliceTokens?: number;
  /** False if the request could cost more than `amount`: any hard budget then refuses it. */
  readonly bounded: boolean;
  readonly tags: Readonly<Record<string, string>>;
  /** Earlier attempts, as stated by the client's SDK: 0 for a first one, at most 1000. */
  readonly retry: number;
}

export type HoldResult =
  | {
      readonly ok: true;
      /** Room of the tightest hard window after this hold; null when no hard budget applies. */
      readonly room: PicoUsd | null;
    }
  | { readonly ok: false; readonly reason: "no_room"; readonly shortage: Shortage }
  | { readonly ok: false; readonly reason: "not_bounded" }
  | { readonly ok: false; readonly reason: "unavailable" };

export type WrittenResult =
  | { readonly ok: true; readonly written: string | null }
  | { readonly ok: false; readonly reason: "unavailable" };

export type BurstMarksResult =
  | { readonly ok: true; readonly marks: readonly BurstMark[] }
  | { readonly ok: false; readonly reason: "unavailable" };

/** Time for which a value under an idempotency key is stored, in milliseconds. */
export const writtenKeptMs = 2 * 86_400_000;

export type ExtendResult =
  | { readonly ok: true; readonly granted: PicoUsd }
  | { readonly ok: false; readonly reason: "no_room"; readonly shortage: Shortage }
  | { readonly ok: false; readonly reason: "not_pending" | "unavailable" };

/** Known facts of the answer when a charge ends. Times and durations in milliseconds. */
export interface ChargeEnd {
  readonly at: number;
  readonly status: number | null;
  readonly servedModel: string | null;
  readonly gatewayRequestId: string | null;
  readonly durationMs: number | null;
  readonly firstTokenMs: number | null;
}

export type SettleResult =
  /** `first` is false for a repeat, which changes nothing. `overage`: posted amount above the hold. */
  | {
      readonly ok: true;
      readonly first: boolean;
      readonly state: ChargeState;
      readonly cost: PicoUsd | null;
      readonly overage: PicoUsd;
    }
  | { readonly ok: false; readonly reason: "no_such_charge" | "unavailable" };

export interface Correction {
  readonly id: string;
  /** Time of the correction. */
  readonly at: number;
  /** Amount added to the charge's cost; below zero for a credit. */
  readonly amount: PicoUsd;
  /** Amount added to its list cost; 0 unless given. */
  readonly listAmount?: PicoUsd;
  readonly why: string;
  readonly by: string;
}

export type AdjustResult =
  | "ok"
  /** A correction with this id exists; nothing was changed. */
  | "repeated"
  | "no_such_charge"
  /** The charge is pending or voided and has no amount to correct. */
  | "not_posted"
  /** The charge is itself a correction or a carried sum. */
  | "is_adjustment"
  /** The charge with all its corrections would cost less than 0. */
  | "below_zero"
  /** A sum that it changes would exceed 64 bits. */
  | "too_large"
  | "unavailable";

export interface ChargeQuery {
  readonly key?: string;
  readonly model?: string;
  readonly state?: ChargeState;
  /** Only corrections of this charge. */
  readonly adjusts?: string;
  /** Only charges with this tag. No index helps: a rarer tag takes longer. */
  readonly tag?: { readonly name: string; readonly value: string };
  /** Half-open: from `since` to before `until`. */
  readonly since?: number;
  readonly until?: number;
  /** 1 to 1000. */
  readonly limit: number;
  /** The id of the last charge of the page before. */
  readonly after?: string;
}

/** Half-open, by the admission's time; milliseconds since 1970 UTC. */
export interface TimeSpan {
  readonly since: number;
  readonly until: number;
}

export interface ChargePage {
  readonly charges: readonly Charge[];
  readonly next: string | null;
}

export const reportDimensions = ["key", "team", "model", "group", "day", "hour"] as const;
/** Value of the tag of this name; null for charges without it. */
export type TagDimension = `tag:${string}`;
export type ReportDimension = (typeof reportDimensions)[number] | TagDimension;

export function isTagDimension(dimension: string): dimension is TagDimension {
  return dimension.startsWith("tag:");
}

/** Returns the tag name of a dimension. */
export function tagNameOf(dimension: TagDimension): string {
  return dimension.slice("tag:".length);
}

/**
 * Posted charges by their time of admission. Spans are rounded outwards to quarter hours, days to the time zone's days.
 * Charges that retention turned into sums have no tags.
 */
export interface ReportQuery {
  readonly by: readonly ReportDimension[];
  readonly since: number;
  readonly until: number;
}

/** Narrows a report to one session of `farebox run`. */
export interface OfSession {
  readonly session?: string;
}

export interface ReportRow {
  /** In the order of `by`; `day` is "2026-11-20", `hour` is an ISO instant; null where there is none. */
  readonly dimensions: Readonly<Partial<Record<ReportDimension, string | null>>>;
  readonly requests: number;
  readonly unpricedRequests: number;
  /** Requests that the client's SDK had sent before. */
  readonly retries: number;
  readonly tokens: TokenCounts;
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  /** Part of the cost from charges with doubts. */
  readonly inDoubt: PicoUsd;
  readonly bySource: Readonly<Record<string, { readonly requests: number; readonly cost: PicoUsd }>>;
}

export interface WhatIfRow extends ReportRow {
  readonly whatIf: WhatIfSums;
}

export interface WhatIfSums {
  /** Recomputed amounts, with the stored amounts of the rest. Minus the row's cost, it is the effect of the prices. */
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  /** Charges that kept their stored amount, by reason. */
  readonly notRecomputed: Readonly<Partial<Record<NotRecomputed, RequestsAndCost>>>;
  /** Recomputed charges without a price when they were charged, with their new cost. */
  readonly newlyPriced: RequestsAndCost;
}

export interface RequestsAndCost {
  readonly requests: number;
  readonly cost: PicoUsd;
}

export interface OldHold {
  readonly id: string;
  readonly kind: HoldKind;
  readonly at: number;
  readonly key: string;
  readonly amount: PicoUsd | null;
  /** True if the proxy run that placed it is over: only the next `serve` settles it. */
  readonly isOrphaned: boolean;
}

export interface Difference {
  /**
   * `task`: a task and its charge disagree about settlement. `link`: windows that a charge applies to. `carried`:
   * requests in a carried sum.
   */
  readonly kind: "charge" | "price" | "window" | "link" | "rollup" | "carried" | "task" | "budget";
  readonly id: string;
  readonly expected: string;
  readonly found: string;
}

export interface Verification {
  readonly charges: number;
  /** At most 1000. */
  readonly differences: readonly Difference[];
  /** Number of further differences; absent for none. */
  readonly unlisted?: number;
}
