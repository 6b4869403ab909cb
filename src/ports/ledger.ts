import type { LedgerTotals } from "../core/account-sample.ts";
import type { Budget, BudgetWindow, Caller, Shortage } from "../core/budget.ts";
import type { Charge, ChargeState, HoldKind } from "../core/charge.ts";
import type { ChargePrices } from "../core/cost.ts";
import type { PicoUsd } from "../core/money.ts";
import type { HoldBasis } from "../core/output-cap.ts";
import type { PriceVersion } from "../core/price.ts";
import type { RawUnits } from "../core/raw-units.ts";
import type { CorrectionMade } from "../core/reconciliation.ts";
import type { Settlement } from "../core/settlement.ts";
import type { BurstMark, StreamObservation } from "../core/stream-bursts.ts";
import type { TokenCounts } from "../core/tokens.ts";
import type { ChargeInputs, NotRecomputed, Recomputed } from "../core/what-if.ts";
import type { RecentCursor, RecentQuery, SpendQuery, SpendRow } from "./spend.ts";

/**
 * Charges of requests, from the hold to the settlement: a hold is placed, may be extended, and is then posted or voided, once.
 * Every call is idempotent by the charge's id. A promise that resolves with `ok` is durable; `unavailable` means that nothing
 * was written. Money is counted by the rules of `core/`, the same in every store; one contract suite runs against all of them.
 */
export interface Charging {
  /**
   * Inserts the charge as pending and reserves its amount in every window that weighs on the caller, in one
   * transaction, only if every hard one has room. A window that does not exist yet is built from the charges in it.
   */
  hold(request: HoldRequest): Promise<HoldResult>;
  /** Enlarges a pending hold by as much of `amount` as every hard window has room for, and by nothing below `atLeast`. */
  extend(id: string, amount: PicoUsd, atLeast: PicoUsd): Promise<ExtendResult>;
  /**
   * Ends a hold with an amount. Never refused for lack of room; a repeat is answered with the first result. After `recover` has
   * posted it, the first settlement corrects the charge to its amount.
   */
  post(id: string, posting: Posting, end: ChargeEnd): Promise<SettleResult>;
  /** Ends a hold without an amount; a repeat is answered with the first result, and corrects as `post` does. */
  void(id: string, reason: string, end: ChargeEnd): Promise<SettleResult>;
  /**
   * Remembers what was written into a request with an idempotency key, for two days. Answers with what was written first,
   * null where nothing is remembered; `written` null only looks.
   */
  writtenFor(idempotency: string, written: string | null, at: number): Promise<WrittenResult>;
  /** Takes note of what a watched stream showed of its model; null only looks. Answers with all marks. */
  burstMarks(seen: StreamObservation | null, at: number): Promise<BurstMarksResult>;
}

/** Budgets and their windows. */
export interface BudgetStore {
  /**
   * Adds or changes a budget (same scope and period: a change), and opens its current window from the charges. `by`: who
   * sets it, for the audit; farebox itself where nobody is named.
   */
  setBudget(budget: Omit<Budget, "id">, at: number, by?: string): Promise<Budget>;
  /** False when there is none of that scope and period. */
  removeBudget(scope: string, period: string, at: number, by?: string): Promise<boolean>;
  /** All budgets, in the order of their creation. */
  budgets(): Promise<readonly Budget[]>;
  /** Every budget's window at the instant; for `eachKey`, one for each key that has one. */
  windows(at: number): Promise<readonly BudgetWindow[]>;
  /** The windows that weigh on a caller at the instant, those too that no hold has opened yet. */
  windowsOf(caller: Caller, at: number): Promise<readonly BudgetWindow[]>;
  /**
   * Of the windows at the instant those, at most `limit`, that are to be told of by the rules of alerts, and are not by what is
   * in the outbox. Where a proxy runs, it is not found out on the thread that answers requests.
   */
  windowsToAlert(at: number, limit: number): Promise<readonly BudgetWindow[]>;
}

/** Prices that charges were computed from. */
export interface StoredPrices {
  /** The price version that charges name; undefined for an id that no hold came with. */
  price(id: string): Promise<PriceVersion | undefined>;
}

/** Charges for an export. */
export interface ChargeStream extends StoredPrices {
  /**
   * All charges of the span, whatever their state, oldest first and in parts: all from one snapshot, which is kept until the
   * last part is taken or the iteration is ended.
   */
  stream(span: TimeSpan): AsyncIterable<readonly Charge[]>;
}

/** Queries of charges and of sums of them. */
export interface LedgerQueries extends ChargeStream {
  charge(id: string): Promise<Charge | undefined>;
  /** Newest first. */
  charges(query: ChargeQuery): Promise<ChargePage>;
  /**
   * Of the last 5000 charges that were written those that match, the last one first, for who watches: cheap enough to be asked
   * each second. After an earlier look those that were written or ended since, and perhaps some that ended shortly before.
   */
  recent(query: RecentQuery): Promise<{ readonly charges: readonly Charge[]; readonly cursor: RecentCursor }>;
  report(query: ReportQuery & OfSession): Promise<readonly ReportRow[]>;
  /** What the posted tasks of the half-open span used up in units that no price file valued, by the units' type. */
  rawUnits(span: TimeSpan): Promise<readonly RawUnits[]>;
  /** In the order of time, then of names. */
  spend(query: SpendQuery): Promise<readonly SpendRow[]>;
  /**
   * As `report`, taken from the charges themselves, with what `recompute` says that each would have cost. Read a page at a
   * time, so that it may take long and holds nothing up: a charge that is posted meanwhile is in all of it or in none.
   * `onProgress` is told how much of the span is done, from 0 to 1.
   */
  whatIf(
    query: ReportQuery,
    recompute: (charge: ChargeInputs) => Recomputed,
    onProgress?: (share: number) => void,
  ): Promise<readonly WhatIfRow[]>;
  /** The end of the last day of which retention has turned charges into sums; null where it has not. */
  prunedUntil(): Promise<number | null>;
  pending(): Promise<{ readonly count: number; readonly oldestAt: number | null }>;
  /** The ledger's counters since its beginning, from one snapshot; retention does not change them. */
  totals(): Promise<LedgerTotals>;
  /** Corrections that were made in the half-open span, and those of charges that ended in it, in their order. */
  corrections(since: number, until: number): Promise<readonly CorrectionMade[]>;
  /** Pending holds admitted before the instant, oldest first, at most 1000; those of tasks that are known to run are left out. */
  oldHolds(before: number): Promise<readonly OldHold[]>;
}

/** Corrections, recovery and checks. */
export interface LedgerMaintenance {
  /**
   * Adds a correction beside a posted charge: a new row, never an edit. It has the charge's time, so it moves the windows,
   * days and reports that the charge is in.
   */
  adjust(id: string, correction: Correction): Promise<AdjustResult>;
  /**
   * Posts, as `assumed`, the pending holds whose owner no longer runs. Only `serve` calls it. The hold of a task whose id is
   * known stays: the task ends it.
   */
  recover(at: number): Promise<number>;
  /** Whether a hold could be written now: writes, durably, what changes nothing. */
  isWritable(): Promise<boolean>;
  /**
   * Compares every stored sum and amount with what its charges say, from one snapshot. `onProgress` is told the share of
   * the charges that is done, where the work is not on another thread.
   */
  verify(onProgress?: (share: number) => void): Promise<Verification>;
}

/** All that a store does with charges and budgets. A user takes the part that it needs. */
export interface Ledger extends Charging, BudgetStore, LedgerQueries, LedgerMaintenance {}

/** The prices that a charge was computed from; undefined where it has none, or one of them is not stored. */
export async function pricesOf(
  ledger: StoredPrices,
  { priceId, servedPriceId }: Pick<Charge, "priceId" | "servedPriceId">,
): Promise<ChargePrices | undefined> {
  const price = priceId === null ? undefined : await ledger.price(priceId);
  const servedPrice = servedPriceId === null ? null : await ledger.price(servedPriceId);
  return price === undefined || servedPrice === undefined ? undefined : { price, servedPrice };
}

/** The store cannot be reached or written (a full disk, a lost file): nothing was changed. The message says why. */
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
  /** Written with its canonical text no later than its first hold. */
  readonly price: { readonly id: string; readonly canonical: string } | null;
  /** Null for a model without a price. */
  readonly amount: PicoUsd | null;
  /** Reserved in the place of `amount` where a hard budget weighs on the caller: the hold then grows by `extend`. */
  readonly firstSlice?: PicoUsd;
  /** What `amount` was computed from; left out where no text is limited. */
  readonly basis?: HoldBasis | null;
  /** Output tokens that `firstSlice` covers. */
  readonly sliceTokens?: number;
  /** False where the request could cost more than `amount`: it is then refused under any hard budget. */
  readonly bounded: boolean;
  readonly tags: Readonly<Record<string, string>>;
  /** How often the client's SDK has sent this request before, as it says itself: 0 for a first try, at most 1000. */
  readonly retry: number;
}

export type HoldResult =
  | {
      readonly ok: true;
      /** What the tightest hard window has left beside this hold; null when no hard budget weighs on the caller. */
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

/** How long what was written under an idempotency key is remembered. Milliseconds. */
export const writtenKeptMs = 2 * 86_400_000;

export type ExtendResult =
  | { readonly ok: true; readonly granted: PicoUsd }
  | { readonly ok: false; readonly reason: "no_room"; readonly shortage: Shortage }
  | { readonly ok: false; readonly reason: "not_pending" | "unavailable" };

/** What is known of the answer when a charge ends. Times and durations in milliseconds. */
export interface ChargeEnd {
  readonly at: number;
  readonly status: number | null;
  readonly servedModel: string | null;
  readonly gatewayRequestId: string | null;
  readonly durationMs: number | null;
  readonly firstTokenMs: number | null;
}

export type SettleResult =
  /** `first` is false for a repeat, which changes nothing. `overage` is what posted beyond the hold. */
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
  /** When it is made. */
  readonly at: number;
  /** What is added to the charge's cost; below zero for a credit. */
  readonly amount: PicoUsd;
  /** What is added to its list cost; nothing unless given. */
  readonly listAmount?: PicoUsd;
  readonly why: string;
  readonly by: string;
}

export type AdjustResult =
  | "ok"
  /** A correction of this id is there already; nothing was changed. */
  | "repeated"
  | "no_such_charge"
  /** The charge is pending or voided: there is no amount to correct. */
  | "not_posted"
  /** The charge is itself a correction or a carried sum. */
  | "is_adjustment"
  /** The charge with all its corrections would cost less than nothing. */
  | "below_zero"
  /** A sum that it moves would be beyond 64 bits. */
  | "too_large"
  | "unavailable";

export interface ChargeQuery {
  readonly key?: string;
  readonly model?: string;
  readonly state?: ChargeState;
  /** Only corrections of this charge. */
  readonly adjusts?: string;
  /** Only those that carry this tag. No index helps: the rarer it is, the longer the look. */
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
/** The value of the tag of this name; null for charges without it. */
export type TagDimension = `tag:${string}`;
export type ReportDimension = (typeof reportDimensions)[number] | TagDimension;

export function isTagDimension(dimension: string): dimension is TagDimension {
  return dimension.startsWith("tag:");
}

/** The name in a tag's dimension. */
export function tagNameOf(dimension: TagDimension): string {
  return dimension.slice("tag:".length);
}

/**
 * Posted charges by their admission's time. Spans are rounded outwards to quarter hours, days to the time zone's days.
 * Charges that retention has turned into sums have no tags any more.
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
  /** How many of the requests the client's SDK had sent before. */
  readonly retries: number;
  readonly tokens: TokenCounts;
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  /** Of the cost, that of charges with doubts. */
  readonly inDoubt: PicoUsd;
  readonly bySource: Readonly<Record<string, { readonly requests: number; readonly cost: PicoUsd }>>;
}

export interface WhatIfRow extends ReportRow {
  readonly whatIf: WhatIfSums;
}

export interface WhatIfSums {
  /** What was recomputed, with the stored amounts of what cannot be: less the row's cost it is the difference that the prices make. */
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  /** What kept its stored amount, by the reason. */
  readonly notRecomputed: Readonly<Partial<Record<NotRecomputed, RequestsAndCost>>>;
  /** Of the recomputed, what had no price when it was charged; with its recomputed cost. */
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
  /** Whether the run of the proxy that placed it is over: nobody but the next `serve` ends it. */
  readonly isOrphaned: boolean;
}

export interface Difference {
  /** `task`: whether a task is settled with its charge. `link`: which windows a charge weighs on. `carried`: how many requests a carried sum is made of. */
  readonly kind: "charge" | "price" | "window" | "link" | "rollup" | "carried" | "task" | "budget";
  readonly id: string;
  readonly expected: string;
  readonly found: string;
}

export interface Verification {
  readonly charges: number;
  /** At most 1000: after that many, one more tells nobody anything. */
  readonly differences: readonly Difference[];
  /** How many more there are; absent for none. */
  readonly unlisted?: number;
}
