import type { LedgerTotals } from "../core/account.ts";
import type { Budget, BudgetWindow, Raise, Rooms, Shortage } from "../core/budget.ts";
import type { Caller } from "../core/scope.ts";
import type { Charge, ChargeState, HoldKind, Source } from "../core/charge.ts";
import type { Billing, ChargePrices } from "../core/cost.ts";
import type { PicoUsd } from "../core/money.ts";
import type { HoldBasis } from "../core/bounds.ts";
import type { PriceVersion } from "../core/price.ts";
import { termsWithRuns } from "../core/runs.ts";
import type { RawUnits } from "../core/task-settlement.ts";
import type { LedgerCorrection } from "../core/reconciliation.ts";
import type { Settlement } from "../core/settlement.ts";
import type { BurstMark, StreamObservation } from "../core/slices.ts";
import type { Doubt, TokenCounts } from "../core/usage.ts";
import type { ChargeInputs, NotRecomputed, Recomputed } from "../core/what-if.ts";
import type { AgentSessions } from "./agent-sessions.ts";
import type { RecentCursor, RecentQuery, SpendQuery, SpendRow } from "./spend.ts";
import { dayMs } from "../core/time.ts";

/**
 * Charges of requests. A hold is placed, may be extended, and is then posted or voided once. Calls are idempotent by
 * the charge's id. A result with `ok: true` is durable; `unavailable` means that nothing was written. Every store
 * counts money by the rules of `core/`, and one contract suite tests all stores.
 */
export interface Charging {
  /**
   * Inserts a pending charge and holds its amount in every window that applies to the caller, in one transaction.
   * Refuses if a hard window cannot admit the amount, unless the amount is already owed (`isOwed`). Creates a missing
   * window with the sums of the charges in it.
   */
  hold(request: HoldRequest): Promise<HoldResult>;
  /**
   * Extends a pending hold by the part of `amount` that fits every hard window. Refuses if that part is less than
   * `atLeast`. `at`: instant that decides which raises are in force.
   */
  extend(id: string, amount: PicoUsd, atLeast: PicoUsd, at: number): Promise<ExtendResult>;
  /**
   * Settles a hold with an amount, even above the limits of budgets. A repeat returns the first result. If `recover`
   * has already posted the hold, the first settlement corrects the charge to its amount.
   */
  post(id: string, posting: Posting, end: ChargeEnd): Promise<SettleResult>;
  /** Settles a hold without an amount. Handles repeats and recovered holds like `post`. */
  void(id: string, reason: string, end: ChargeEnd): Promise<SettleResult>;
  /**
   * Stores a text under a name for two days, unless the name has one: the values injected into a request with an
   * idempotency key, or a mark of `LongPrompts`. Returns the first text under the name; null if there is none. If `text`
   * is null, only reads.
   */
  firstText(name: string, text: string | null, at: number): Promise<FirstTextResult>;
  /** Stores an observation of a stream and returns the marks of all models. If `seen` is null, only reads. */
  burstMarks(seen: StreamObservation | null, at: number): Promise<BurstMarksResult>;
}

/** Budgets and their windows. */
export interface BudgetStore {
  /**
   * Adds a budget, or changes the existing budget of the scope and period. Opens its current window from the charges.
   * `by`: author for the audit log; `farebox` by default.
   */
  setBudget(budget: Omit<Budget, "id">, at: number, by?: string): Promise<Budget>;
  /** Removes a budget. Returns false if no budget has the scope and period. */
  removeBudget(scope: string, period: string, at: number, by?: string): Promise<boolean>;
  /**
   * Adds an amount to the limit of one window of a budget. A later change of the budget keeps the raise; removal of the
   * budget deletes it.
   */
  raiseBudget(raise: NewRaise, at: number, by?: string): Promise<RaiseResult>;
  /** Returns all budgets in the order of creation. */
  budgets(): Promise<readonly Budget[]>;
  /**
   * Returns the windows of all budgets at the instant; of a budget with `each-…`, only the windows that the ledger has
   * stored. `byUserOrTag`: false to leave out budgets by user or tag, which may have 100,000 windows.
   */
  windows(at: number, which?: { readonly byUserOrTag: boolean }): Promise<readonly BudgetWindow[]>;
  /** Returns the windows that apply to a caller at the instant, including those that no hold has opened yet. */
  windowsOf(caller: Caller, at: number): Promise<readonly BudgetWindow[]>;
  /**
   * Returns at most `limit` windows at the instant for which an alert is due and not in the outbox yet. A running proxy
   * computes this on another thread than the one that answers requests.
   */
  windowsToAlert(at: number, limit: number): Promise<readonly BudgetWindow[]>;
}

/** Raise of one window. It has no effect outside the window's span. */
export interface NewRaise extends Raise {
  /** As `formatScope` returns it. */
  readonly scope: string;
  readonly period: string;
  readonly subject: string;
  readonly why: string;
}

export type RaiseResult =
  | { readonly ok: true; readonly budget: Budget }
  /** `too_large`: the limit with all raises would exceed 64 bits. */
  | { readonly ok: false; readonly reason: "no_such_budget" | "too_large" };

/** Prices from which charges were computed. */
export interface StoredPrices {
  /** Returns a price version by id; undefined if no hold has stored it. */
  price(id: string): Promise<PriceVersion | undefined>;
}

/** Charges for an export. */
export interface ChargeStream extends StoredPrices {
  /**
   * Yields all charges of the span in any state, oldest first, in parts. Keeps one snapshot until the iteration ends.
   */
  stream(span: TimeSpan): AsyncIterable<readonly Charge[]>;
}

/** Queries of charges and of their sums. */
export interface LedgerQueries extends ChargeStream, AgentSessions {
  charge(id: string): Promise<Charge | undefined>;
  /** Returns a page of charges, newest first unless the query states another order. */
  charges(query: ChargeQuery): Promise<ChargePage>;
  /**
   * Returns matching charges among the last 5,000 stored, newest first. With a cursor, returns those of the last 1,000
   * that were stored or ended since the cursor, and may repeat some that ended shortly before it. Cheap enough to poll
   * each second.
   */
  recent(query: RecentQuery): Promise<{ readonly charges: readonly Charge[]; readonly cursor: RecentCursor }>;
  report(query: ReportQuery & SessionFilter): Promise<readonly ReportRow[]>;
  /**
   * Returns, by type of unit, the consumption of posted tasks of the span in units for which no price file states a
   * value.
   */
  rawUnits(span: TimeSpan): Promise<readonly RawUnits[]>;
  /** Returns the spend of a span, ordered by time, then by names. */
  spend(query: SpendQuery): Promise<readonly SpendRow[]>;
  /**
   * Returns a `report` in which `recompute` decides the amount of each charge. Reads one page of charges at a time: it
   * may take long, but blocks nothing. A charge that is posted meanwhile is counted completely or not at all.
   * `onProgress` receives the completed share, from 0 to 1.
   */
  whatIf(
    query: ReportQuery,
    recompute: (charge: ChargeInputs) => Recomputed,
    onProgress?: (share: number) => void,
  ): Promise<readonly WhatIfRow[]>;
  /** Returns the end of the last day whose charges retention replaced by sums; null if there is none. */
  prunedUntil(): Promise<number | null>;
  /** Returns the start of the first day with posted charges; null if there are none. */
  firstDay(): Promise<number | null>;
  pending(): Promise<{ readonly count: number; readonly oldestAt: number | null }>;
  /** Returns the ledger's counters since its creation, from one snapshot. Retention does not change them. */
  totals(): Promise<LedgerTotals>;
  /**
   * Returns the corrections made in the half-open span, and the corrections of charges that ended in it. Oldest
   * correction first.
   */
  corrections(since: number, until: number): Promise<readonly LedgerCorrection[]>;
  /**
   * Returns at most 1000 pending holds admitted before the instant, oldest first. Excludes holds of known running
   * tasks.
   */
  oldHolds(before: number): Promise<readonly OldHold[]>;
}

/** Corrections, recovery and checks. */
export interface LedgerMaintenance {
  /**
   * Corrects a posted charge by adding a row; never edits the charge. The correction has the charge's time, so it
   * changes the windows, days and reports of the charge.
   */
  adjust(id: string, correction: Correction): Promise<AdjustResult>;
  /**
   * Posts, as `assumed`, the pending holds of proxies that no longer run. Only `serve` calls this. Skips holds of tasks
   * with a known id: the task's record settles them. Returns the number of posted holds.
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

/** Prices and terms from which a charge was computed. */
export interface PricedTerms extends ChargePrices {
  /** Terms with the runs of the model. */
  readonly billing: Billing;
}

/** Returns the prices from which a charge was computed; undefined if it has no price, or a price is not stored. */
export async function pricesOf(
  ledger: StoredPrices,
  charge: Pick<Charge, "priceId" | "servedPriceId" | "billing" | "runs">,
): Promise<PricedTerms | undefined> {
  const { priceId, servedPriceId, runs } = charge;
  const price = priceId === null ? undefined : await ledger.price(priceId);
  const servedPrice = servedPriceId === null ? null : await ledger.price(servedPriceId);
  const ofRuns = new Map<string, PriceVersion | undefined>();
  for (const run of runs) if (run.priceId !== null) ofRuns.set(run.priceId, await ledger.price(run.priceId));
  const billing = termsWithRuns(charge, (run) => ofRuns.get(run.priceId) ?? null);
  return price === undefined || servedPrice === undefined || billing === null
    ? undefined
    : { price, servedPrice, billing };
}

/** Thrown if the store cannot be reached or written, for example with a full disk. Nothing was changed. */
export class LedgerUnavailable extends Error {}

/** Settlement with an amount. */
export type Posting = Extract<Settlement, { kind: "post" }>;

export interface HoldRequest {
  readonly id: string;
  readonly kind: HoldKind;
  /** Time of the admission, in milliseconds since 1970 UTC. */
  readonly at: number;
  readonly caller: Omit<Caller, "tags" | "models">;
  readonly route: string;
  readonly model: string;
  readonly group: string | null;
  readonly stream: boolean;
  /** Price of the request. Its canonical text is stored with the first hold that uses it. */
  readonly price: { readonly id: string; readonly canonical: string } | null;
  /** Null for a model without a price. */
  readonly amount: PicoUsd | null;
  /** Amount to hold instead of `amount` if a hard budget applies. `extend` then grows the hold. */
  readonly firstSlice?: PicoUsd;
  /** Explains which output `amount` covers; null or absent if requests to the endpoint cannot limit text output. */
  readonly basis?: HoldBasis | null;
  /** Output tokens that `firstSlice` covers. */
  readonly sliceTokens?: number;
  /** False if the request may cost more than `amount`. Any hard budget then refuses it. */
  readonly bounded: boolean;
  readonly tags: Readonly<Record<string, string>>;
  /**
   * Catalogue models that may answer; only `model` if the catalogue does not know it. If it is unknown which model
   * answered, the charge counts for the first one.
   */
  readonly models?: readonly string[];
  /**
   * True if a model may answer that the catalogue does not know. If such a request is also not bounded, each hard
   * budget on models refuses it.
   */
  readonly anyModel?: boolean;
  /**
   * True if the gateway already works on what the hold pays for. The hold is then written even above the limits of hard
   * budgets, and without a bound.
   */
  readonly isOwed?: boolean;
  /** Number of earlier attempts that the client's SDK states, at most 1000; 0 for a first attempt. */
  readonly retry: number;
}

export type HoldResult =
  | ({ readonly ok: true } & Rooms)
  | { readonly ok: false; readonly reason: "no_room"; readonly shortage: Shortage }
  | { readonly ok: false; readonly reason: "not_bounded" }
  /** The key has named too many new users, tag values or models of `each-…` budgets on that day. */
  | { readonly ok: false; readonly reason: "too_many_subjects" }
  | { readonly ok: false; readonly reason: "unavailable" };

export type FirstTextResult =
  | { readonly ok: true; readonly text: string | null }
  | { readonly ok: false; readonly reason: "unavailable" };

export type BurstMarksResult =
  | { readonly ok: true; readonly marks: readonly BurstMark[] }
  | { readonly ok: false; readonly reason: "unavailable" };

/** Time for which the first text under a name is stored, in milliseconds. */
export const firstTextKeptMs = 2 * dayMs;

export type ExtendResult =
  | { readonly ok: true; readonly granted: PicoUsd }
  | { readonly ok: false; readonly reason: "no_room"; readonly shortage: Shortage }
  | { readonly ok: false; readonly reason: "not_pending" | "unavailable" };

/** Properties of the answer, as far as they are known when the charge ends. Times and durations are in milliseconds. */
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
  /** Amount added to the charge's list cost; 0 unless given. */
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
  /** The ledger cannot be written, for this reason. */
  | { readonly unavailable: string };

export const chargeSorts = ["time", "cost"] as const;
/** Names that a charge may lack. */
export const chargeNames = ["key", "team", "group"] as const;

/**
 * Filters by properties of charges that have no index. A query for a rare value reads many charges, unless
 * `examinedMax` limits their number.
 */
interface ChargeFilter {
  readonly model?: string | undefined;
  readonly team?: string | undefined;
  readonly group?: string | undefined;
  /** Only charges without this name. */
  readonly without?: (typeof chargeNames)[number] | undefined;
  readonly state?: ChargeState | undefined;
  readonly source?: Source | undefined;
  /** True for charges with any doubt. */
  readonly doubt?: Doubt | true | undefined;
  /** Only charges with this tag. */
  readonly tag?: { readonly name: string; readonly value: string } | undefined;
  /** Only charges of keys with this label at the time of the request. */
  readonly label?: { readonly name: string; readonly value: string } | undefined;
  /** Only charges with this user, in the stored form. */
  readonly user?: string | undefined;
  /** Range of statuses, including both ends. */
  readonly status?: readonly [from: number, to: number] | undefined;
  /** Smallest and largest cost. Charges without a cost do not match. */
  readonly minCost?: PicoUsd | undefined;
  readonly maxCost?: PicoUsd | undefined;
  /** Start of the id. The query uses an index if this has at least 8 characters. */
  readonly idPrefix?: string | undefined;
}

export interface ChargeQuery extends ChargeFilter {
  readonly key?: string | undefined;
  /** Only corrections of this charge. */
  readonly adjusts?: string;
  /** Half-open: from `since` to before `until`. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** `time` unless given. A charge without a cost is sorted as if it cost nothing. */
  readonly sort?: (typeof chargeSorts)[number] | undefined;
  /** `desc` unless given. */
  readonly order?: "asc" | "desc" | undefined;
  /**
   * Largest number of charges of the key and span to examine; absent for all. The query examines the newest charges,
   * but the oldest ones in ascending order of time.
   */
  readonly examinedMax?: number;
  /** 1 to 1000. */
  readonly limit: number;
  /** Id of the last charge on the previous page. */
  readonly after?: string | undefined;
}

/** Half-open span of admission times, in milliseconds since 1970 UTC. */
export interface TimeSpan {
  readonly since: number;
  readonly until: number;
}

export interface ChargePage {
  readonly charges: readonly Charge[];
  /**
   * Id after which the next page starts; null on the last page. In a list by `time`, this charge may be one that the
   * query examined but that does not match.
   */
  readonly next: string | null;
  /** Time of the last examined charge if `examinedMax` excluded others from this page; otherwise null. */
  readonly examinedTo: number | null;
}

export const reportDimensions = ["key", "team", "model", "group", "user", "day", "hour"] as const;
/** Dimension of a report: the value of the named tag or label; null for charges without it. */
type NamedDimension = `tag:${string}` | `label:${string}`;
export type ReportDimension = (typeof reportDimensions)[number] | NamedDimension;

/** Returns the column of `tag:NAME` and `label:NAME`, and the name; undefined for other dimensions. */
export function namedDimension(
  dimension: string,
): { readonly column: "tags" | "labels"; readonly name: string } | undefined {
  const [, kind, name] = /^(tag|label):(.*)$/s.exec(dimension) ?? [];
  return name === undefined ? undefined : { column: kind === "tag" ? "tags" : "labels", name };
}

/** Returns true for dimensions that rollups do not contain. Reports by these dimensions read the charges. */
export function isOfCharges(dimension: string): dimension is NamedDimension | "user" {
  return dimension === "user" || namedDimension(dimension) !== undefined;
}

/**
 * Selects posted charges by their time of admission. Spans are rounded outwards to quarter hours. Days begin and end in
 * the ledger's time zone. Charges that retention replaced by sums have no tags, labels or users.
 */
export interface ReportQuery {
  readonly by: readonly ReportDimension[];
  readonly since: number;
  readonly until: number;
}

/** Limits a report to one session of `farebox run`. */
export interface SessionFilter {
  readonly session?: string;
}

export interface ReportRow {
  /** Values in the order of `by`, null if missing. `day` is a date such as "2026-11-20"; `hour` is an ISO instant. */
  readonly dimensions: Readonly<Partial<Record<ReportDimension, string | null>>>;
  readonly requests: number;
  readonly unpricedRequests: number;
  /** Number of requests that are retries of the client's SDK. */
  readonly retries: number;
  readonly tokens: TokenCounts;
  readonly cost: PicoUsd;
  readonly listCost: PicoUsd;
  /** Part of the cost from charges with doubts. */
  readonly inDoubt: PicoUsd;
  readonly bySource: Readonly<Record<string, { readonly requests: number; readonly cost: PicoUsd }>>;
}

export interface WhatIfRow extends ReportRow {
  readonly whatIf: WhatIfTotals;
}

interface WhatIfTotals {
  /**
   * Recomputed costs, plus the stored costs of charges that were not recomputed. Comparable with the row's `cost`.
   */
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
  /** True if the proxy run that placed the hold has ended. The next `serve` then settles the hold. */
  readonly isOrphaned: boolean;
}

/** Kinds of derived rows that a repair writes again from the charges. */
export const repairedKinds = ["window", "link", "rollup", "carried"] as const;
/**
 * Kinds of differences. `task`: a task and its charge disagree about settlement. `link`: the windows linked to a charge
 * differ. `carried`: the number of requests in a carried sum differs.
 */
export const differenceKinds = [...repairedKinds, "charge", "price", "task", "budget"] as const;

export interface Difference {
  readonly kind: (typeof differenceKinds)[number];
  readonly id: string;
  readonly expected: string;
  readonly found: string;
}

/** Change that a repair made to a derived row. */
export interface RepairedRow {
  readonly kind: (typeof repairedKinds)[number];
  readonly id: string;
  readonly from: string;
  readonly to: string;
}

export interface Verification {
  readonly charges: number;
  /** At most 1000. */
  readonly differences: readonly Difference[];
  /** Number of differences that are not listed; absent if all are listed. */
  readonly unlisted?: number;
}
