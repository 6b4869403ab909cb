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
 * Charges of requests. A hold is placed, may be extended, and is then posted or voided once. Calls are idempotent by the
 * charge's id. A result with `ok: true` is durable; `unavailable` means that nothing was written. Every store counts money by
 * the rules of `core/`, and one contract suite tests all stores.
 */
export interface Charging {
  /**
   * Inserts a pending charge and reserves its amount in every window that applies to the caller, in one transaction.
   * Refuses if a hard window lacks room. Builds missing windows from their charges.
   */
  hold(request: HoldRequest): Promise<HoldResult>;
  /** Extends a pending hold by the part of `amount` that fits every hard window. Refuses if that is less than `atLeast`. */
  extend(id: string, amount: PicoUsd, atLeast: PicoUsd): Promise<ExtendResult>;
  /**
   * Settles a hold with an amount, even if windows lack room. A repeat returns the first result. If `recover` posted the
   * hold before, the first settlement corrects the charge to its amount.
   */
  post(id: string, posting: Posting, end: ChargeEnd): Promise<SettleResult>;
  /** Settles a hold without an amount. Handles repeats and recovered holds like `post`. */
  void(id: string, reason: string, end: ChargeEnd): Promise<SettleResult>;
  /**
   * Stores the limit that was written into a request with an idempotency key, for two days. Returns the first stored
   * value; null if there is none. If `written` is null, only reads.
   */
  writtenFor(idempotency: string, written: string | null, at: number): Promise<WrittenResult>;
  /** Stores an observation of a stream and returns the marks of all models. If `seen` is null, only reads. */
  burstMarks(seen: StreamObservation | null, at: number): Promise<BurstMarksResult>;
}

/** Budgets and their windows. */
export interface BudgetStore {
  /**
   * Adds a budget, or changes the existing budget of the scope and period. Opens its current window from the charges.
   * `by`: author for the audit; farebox itself unless given.
   */
  setBudget(budget: Omit<Budget, "id">, at: number, by?: string): Promise<Budget>;
  /** Removes a budget. Returns false if no budget has the scope and period. */
  removeBudget(scope: string, period: string, at: number, by?: string): Promise<boolean>;
  /** Returns all budgets in the order of creation. */
  budgets(): Promise<readonly Budget[]>;
  /** Returns the windows of all budgets at the instant; for `eachKey`, the existing windows of all keys. */
  windows(at: number): Promise<readonly BudgetWindow[]>;
  /** Returns the windows that apply to a caller at the instant, including those that no hold has opened yet. */
  windowsOf(caller: Caller, at: number): Promise<readonly BudgetWindow[]>;
  /**
   * Returns at most `limit` windows at the instant with an alert that is not in the outbox yet. A running proxy uses
   * a thread other than the one that answers requests.
   */
  windowsToAlert(at: number, limit: number): Promise<readonly BudgetWindow[]>;
}

/** Prices from which charges were computed. */
export interface StoredPrices {
  /** Returns a price version by id; undefined if no hold has stored it. */
  price(id: string): Promise<PriceVersion | undefined>;
}

/** Charges for an export. */
export interface ChargeStream extends StoredPrices {
  /** Yields all charges of the span in any state, oldest first, in parts. Keeps one snapshot until the iteration ends. */
  stream(span: TimeSpan): AsyncIterable<readonly Charge[]>;
}

/** Queries of charges and of their sums. */
export interface LedgerQueries extends ChargeStream {
  charge(id: string): Promise<Charge | undefined>;
  /** Returns a page of charges, newest first. */
  charges(query: ChargeQuery): Promise<ChargePage>;
  /**
   * Returns matching charges among the last 5,000 written, newest first. Cheap enough to poll each second. With a cursor,
   * returns charges written or ended since the cursor, and may repeat some that ended shortly before.
   */
  recent(query: RecentQuery): Promise<{ readonly charges: readonly Charge[]; readonly cursor: RecentCursor }>;
  report(query: ReportQuery & OfSession): Promise<readonly ReportRow[]>;
  /** Returns the consumption of the span's posted tasks, by type of unit, for units without a value in the price files. */
  rawUnits(span: TimeSpan): Promise<readonly RawUnits[]>;
  /** Returns rows ordered by time, then by names. */
  spend(query: SpendQuery): Promise<readonly SpendRow[]>;
  /**
   * Returns a `report` computed from the charges with the amounts of `recompute`. Reads one page at a time, so it blocks
   * nothing but may take long. Counts a charge posted meanwhile completely or not at all. `onProgress` receives the
   * completed share, from 0 to 1.
   */
  whatIf(
    query: ReportQuery,
    recompute: (charge: ChargeInputs) => Recomputed,
    onProgress?: (share: number) => void,
  ): Promise<readonly WhatIfRow[]>;
  /** Returns the end of the last day whose charges retention replaced by sums; null if there is none. */
  prunedUntil(): Promise<number | null>;
  pending(): Promise<{ readonly count: number; readonly oldestAt: number | null }>;
  /** Returns the ledger's counters since its beginning, from one snapshot; retention does not change them. */
  totals(): Promise<LedgerTotals>;
  /** Returns, in order, corrections made in the half-open span and corrections of charges that ended in it. */
  corrections(since: number, until: number): Promise<readonly CorrectionMade[]>;
  /** Returns at most 1000 pending holds admitted before the instant, oldest first. Excludes holds of known running tasks. */
  oldHolds(before: number): Promise<readonly OldHold[]>;
}

/** Corrections, recovery and checks. */
export interface LedgerMaintenance {
  /**
   * Corrects a posted charge by adding a row; never edits the charge. The correction has the charge's time, so it changes
   * the windows, days and reports of the charge.
   */
  adjust(id: string, correction: Correction): Promise<AdjustResult>;
  /**
   * Posts the pending holds of owners that no longer run, as `assumed`. Only `serve` calls this. Skips holds of tasks with
   * a known id: the task settles its hold.
   */
  recover(at: number): Promise<number>;
  /** Returns true if a hold could be written now. Tests this with a durable write that changes nothing. */
  isWritable(): Promise<boolean>;
  /**
   * Compares every stored sum and amount with its charges, from one snapshot. `onProgress` receives the completed share
   * of charges, unless another thread does the work.
   */
  verify(onProgress?: (share: number) => void): Promise<Verification>;
}

/** All operations of a store on charges and budgets. Each user of the ledger depends only on the part that it needs. */
export interface Ledger extends Charging, BudgetStore, LedgerQueries, LedgerMaintenance {}

/** Returns the prices from which a charge was computed; undefined if it has no price, or a price is not stored. */
export async function pricesOf(
  ledger: StoredPrices,
  { priceId, servedPriceId }: Pick<Charge, "priceId" | "servedPriceId">,
): Promise<ChargePrices | undefined> {
  const price = priceId === null ? undefined : await ledger.price(priceId);
  const servedPrice = servedPriceId === null ? null : await ledger.price(servedPriceId);
  return price === undefined || servedPrice === undefined ? undefined : { price, servedPrice };
}

/** The store cannot be reached or written, such as with a full disk. Nothing was changed. The message states the reason. */
export class LedgerUnavailable extends Error {}

export type { RawUnits };

/** Settlement with an amount. */
export type Posting = Extract<Settlement, { kind: "post" }>;

export interface HoldRequest {
  readonly id: string;
  readonly kind: HoldKind;
  /** Time of the admission, in milliseconds since 1970 UTC. */
  readonly at: number;
  readonly caller: Caller;
  readonly route: string;
  readonly model: string;
  readonly group: string | null;
  readonly stream: boolean;
  /** Price of the request. Its canonical text is stored with its first hold or before. */
  readonly price: { readonly id: string; readonly canonical: string } | null;
  /** Null for a model without a price. */
  readonly amount: PicoUsd | null;
  /** Amount to reserve instead of `amount` if a hard budget applies. `extend` then grows the hold. */
  readonly firstSlice?: PicoUsd;
  /** Basis of `amount`; absent if no text is limited. */
  readonly basis?: HoldBasis | null;
  /** Output tokens that `firstSlice` covers. */
  readonly sliceTokens?: number;
  /** False if the request may cost more than `amount`. Any hard budget then refuses it. */
  readonly bounded: boolean;
  readonly tags: Readonly<Record<string, string>>;
  /** Number of earlier attempts that the client's SDK states, at most 1000; 0 for a first attempt. */
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

/** Known facts about the answer when a charge ends. Times and durations are in milliseconds. */
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
  /** The correction would make a sum exceed 64 bits. */
  | "too_large"
  | "unavailable";

export interface ChargeQuery {
  readonly key?: string;
  readonly model?: string;
  readonly state?: ChargeState;
  /** Only corrections of this charge. */
  readonly adjusts?: string;
  /** Only charges with this tag. There is no index on tags, so a rare tag takes longer. */
  readonly tag?: { readonly name: string; readonly value: string };
  /** Half-open: from `since` to before `until`. */
  readonly since?: number;
  readonly until?: number;
  /** 1 to 1000. */
  readonly limit: number;
  /** Id of the last charge on the previous page. */
  readonly after?: string;
}

/** Half-open span of admission times, in milliseconds since 1970 UTC. */
export interface TimeSpan {
  readonly since: number;
  readonly until: number;
}

export interface ChargePage {
  readonly charges: readonly Charge[];
  readonly next: string | null;
}

export const reportDimensions = ["key", "team", "model", "group", "day", "hour"] as const;
/** Dimension of a report: the value of the named tag; null for charges without that tag. */
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
 * Selects posted charges by their time of admission. Spans are rounded outwards to quarter hours. Days are those of the
 * time zone. Charges that retention replaced by sums have no tags.
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
  /** Values in the order of `by`, null if missing. `day` is a date such as "2026-11-20"; `hour` is an ISO instant. */
  readonly dimensions: Readonly<Partial<Record<ReportDimension, string | null>>>;
  readonly requests: number;
  readonly unpricedRequests: number;
  /** Requests that the client's SDK sent again. */
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
  /** Recomputed costs plus stored costs of other charges. Its difference from the row's cost is the effect of the prices. */
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  /** Charges that kept their stored amount, by reason. */
  readonly notRecomputed: Readonly<Partial<Record<NotRecomputed, RequestsAndCost>>>;
  /** Recomputed charges that had no price originally, with their new cost. */
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
  /** True if the proxy run that placed the hold is over. Only the next `serve` settles it. */
  readonly isOrphaned: boolean;
}

export interface Difference {
  /**
   * `task`: a task and its charge disagree about settlement. `link`: the windows linked to a charge differ. `carried`:
   * the number of requests in a carried sum differs.
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
  /** Number of differences that are not listed; absent if all are listed. */
  readonly unlisted?: number;
}
