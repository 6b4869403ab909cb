import type { LedgerTotals } from "../../src/core/account.ts";
import { invariant } from "../../src/core/assert.ts";
import {
  amountToHold,
  basisToHold,
  shortageOf,
  noRooms,
  roomsOf,
  smallestRemaining,
  worstShortage,
  type Budget,
  type BudgetWindow,
  type Raise,
  type Shortage,
} from "../../src/core/budget.ts";
import {
  appliesTo,
  formatScope,
  hasSubjects,
  limitsUnbounded,
  subjectsOf,
  type Caller,
  hasClientSubjects,
  subjectsMaxDefault,
} from "../../src/core/scope.ts";
import { correctionFault, type Charge, type Source } from "../../src/core/charge.ts";
import { standardBilling } from "../../src/core/cost.ts";
import { noDoubts, noTokens } from "../../src/core/usage.ts";
import { noMoney, picoUsdMax, smaller, sum, type PicoUsd } from "../../src/core/money.ts";
import type { LedgerCorrection } from "../../src/core/reconciliation.ts";
import type { Calendar } from "../../src/ports/calendar.ts";
import {
  isOfCharges,
  namedDimension,
  type AdjustResult,
  type ChargeEnd,
  type ChargePage,
  type ChargeQuery,
  type Correction,
  type ExtendResult,
  type HoldRequest,
  type HoldResult,
  type NewRaise,
  type Posting,
  type RaiseResult,
  type ReportDimension,
  type ReportQuery,
  type ReportRow,
  type SettleResult,
} from "../../src/ports/ledger.ts";
import {
  otherNames,
  type RecentCursor,
  type RecentQuery,
  type SpendQuery,
  type SpendRow,
} from "../../src/ports/spend.ts";
import { postCommand, voidCommand, type PostCommand, type VoidCommand } from "../../src/ledger/commands.ts";
import { isPostedForDeadProxy, lateCorrection, lateSettlement } from "../../src/ledger/late-settlement.ts";
import { chargesToScan, writeDelayMsMax } from "../../src/ledger/recent-charges.ts";
import { ReportSums } from "../../src/ledger/report-sums.ts";
import type { PostedCharge } from "../../src/ledger/what-if-sums.ts";

const quarterMs = 900_000;
const hourMs = 3_600_000;

/** A charge with its owner, which the port does not show. */
interface StoredCharge extends Charge {
  /** Owner of the hold: the ledger instance that placed it. */
  readonly owner: number;
}

/** State that outlives the ledger that wrote it, as a file outlives a process. */
export interface ModelState {
  /** In the order of writing. */
  readonly charges: Map<string, StoredCharge>;
  /** In the order of creation, by id. */
  readonly budgets: Map<string, Budget>;
  /** Existing windows by name. Their sums are always computed from the charges. */
  readonly opened: Map<string, { readonly budget: string; readonly start: number; readonly subject: string }>;
  raises: (Raise & { readonly budget: string; readonly subject: string })[];
  /** Number of new subjects of each key on its latest day. */
  readonly newSubjects: Map<string, { readonly day: string; readonly subjects: number }>;
  /** Number of ledgers that were opened on this state. */
  runs: number;
  timeZone: string | null;
}

export function emptyState(): ModelState {
  return {
    charges: new Map(),
    budgets: new Map(),
    opened: new Map(),
    newSubjects: new Map(),
    raises: [],
    runs: 0,
    timeZone: null,
  };
}

/**
 * Reference for the stores: it has only charges, and computes every sum from them on request. The stores keep sums
 * and must agree with it.
 */
export class ModelLedger {
  readonly #calendar: Calendar;
  readonly #state: ModelState;
  readonly #run: number;
  readonly #subjectsMax: number;

  /** Opens a new ledger on an old state, like a restart: holds of earlier ledgers have lost their owner. */
  constructor(calendar: Calendar, state: ModelState, now: number, subjectsMax = subjectsMaxDefault) {
    this.#calendar = calendar;
    this.#subjectsMax = subjectsMax;
    this.#state = state;
    this.#run = ++state.runs;
    if (state.timeZone !== null && state.timeZone !== calendar.timeZone) this.#rebuild(now);
    state.timeZone = calendar.timeZone;
  }

  async hold(request: HoldRequest): Promise<HoldResult> {
    const { tags, models = [request.model] } = request;
    const caller = { labels: {}, user: null, ...request.caller, tags, models };
    return this.#hold(request, caller);
  }

  #hasHardBudget(caller: Caller, anyModel: boolean): boolean {
    const hard = [...this.#state.budgets.values()].filter(({ mode }) => mode === "hard");
    return hard.some(({ scope }) => limitsUnbounded(scope, caller, anyModel));
  }

  #hold(request: HoldRequest, caller: Caller): HoldResult {
    const { id, at } = request;
    const isOwed = request.isOwed === true;
    if (
      !isOwed &&
      this.#hasHardBudget(caller, request.anyModel === true) &&
      (!request.bounded || (request.firstSlice ?? request.amount) === null)
    )
      return this.#state.charges.has(id) ? { ok: true, ...noRooms } : { ok: false, reason: "not_bounded" };
    if (!this.#admitsSubjects(caller, at)) return { ok: false, reason: "too_many_subjects" };
    const windows = this.#open(caller, at);
    const amount = amountToHold(windows, request.amount, request.firstSlice ?? null);
    invariant(amount === null || (amount >= 0n && amount <= picoUsdMax), "a hold is an amount");
    if (this.#state.charges.has(id)) return { ok: true, ...roomsOf(windows) };
    const shortage = amount === null || isOwed ? null : shortageAmong(windows, amount);
    if (shortage !== null) return { ok: false, reason: "no_room", shortage };
    this.#state.charges.set(id, pendingCharge(request, amount, windows, this.#run));
    return { ok: true, ...roomsOf(this.#open(caller, at)) };
  }

  async extend(id: string, amount: PicoUsd, atLeast: PicoUsd, at: number): Promise<ExtendResult> {
    invariant(amount >= atLeast && atLeast >= 0n && amount <= picoUsdMax, "an extension is an amount");
    const charge = this.#state.charges.get(id);
    if (charge?.state !== "pending") return { ok: false, reason: "not_pending" };
    const windows = this.#existing(charge).map((window) => this.#withRaises(window, at));
    const shortage = shortageAmong(windows, atLeast);
    if (shortage !== null) return { ok: false, reason: "no_room", shortage };
    const granted = smaller(amount, smallestRemaining(windows) ?? amount);
    if (charge.hold !== null) this.#put({ ...charge, hold: (charge.hold + granted) as PicoUsd });
    return { ok: true, granted };
  }

  async post(id: string, posting: Posting, end: ChargeEnd): Promise<SettleResult> {
    if (this.#state.charges.get(id)?.state === "posted") await this.#correctLate(postCommand(id, posting, end));
    return this.#settle(id, end, (charge) => {
      // The amount "assumed" is the hold in the ledger.
      const cost = posting.formula === "assumed" ? charge.hold : posting.cost;
      const listCost = posting.formula === "assumed" ? charge.hold : posting.listCost;
      invariant((cost === null) === (posting.formula === "unpriced"), "only an unpriced charge has no cost");
      const {
        formula,
        source,
        minimumApplied,
        clamped,
        tokens,
        reason,
        servedPrice,
        billing: { runs = [], ...billing } = standardBilling,
        doubts = noDoubts,
        delivered = null,
      } = posting;
      const inDoubt = doubts.length > 0 ? (cost ?? noMoney) : noMoney;
      const overage =
        charge.hold === null || cost === null || cost <= charge.hold ? noMoney : ((cost - charge.hold) as PicoUsd);
      return {
        state: "posted",
        cost,
        listCost,
        overage,
        formula,
        source,
        minimumApplied,
        clamped,
        tokens,
        reason,
        servedPriceId: servedPrice?.id ?? null,
        models: settledModels(charge, posting.answered),
        billing,
        runs: runs.map(({ tokens: ofRun, promptTokens, price }) => ({
          tokens: ofRun,
          promptTokens,
          model: price?.version.model ?? null,
          priceId: price?.id ?? null,
        })),
        doubts,
        inDoubt,
        delivered,
      };
    });
  }

  async void(id: string, reason: string, end: ChargeEnd): Promise<SettleResult> {
    if (this.#state.charges.get(id)?.state === "posted") await this.#correctLate(voidCommand(id, reason, end));
    return this.#settle(id, end, (charge) => ({ state: "voided", reason, models: settledModels(charge) }));
  }

  async adjust(id: string, correction: Correction): Promise<AdjustResult> {
    const corrected = this.#state.charges.get(id);
    if (corrected === undefined) return "no_such_charge";
    if (this.#state.charges.has(correction.id)) return "repeated";
    const corrections = this.#all().filter(({ adjusts }) => adjusts === id);
    const before = sum(corrections.map(({ cost }) => cost ?? noMoney));
    const fault = correctionFault(corrected, before, correction.amount);
    if (fault !== null) return fault;
    if (this.#existing(corrected).some(({ spent }) => spent + correction.amount > picoUsdMax - 1n)) return "too_large";
    const { kind, key, team, route, model, servedModel, group, stream, source, tags, user, labels, models } = corrected;
    const { amount, listAmount = null, why, by } = correction;
    const { at } = corrected;
    this.#put({
      id: correction.id,
      kind,
      state: "posted",
      at,
      endedAt: correction.at,
      key,
      team,
      route,
      model,
      servedModel,
      group,
      stream,
      priceId: null,
      hold: null,
      basis: null,
      cost: amount,
      listCost: listAmount,
      overage: noMoney,
      formula: "adjustment",
      source,
      minimumApplied: false,
      clamped: false,
      tokens: noTokens,
      status: null,
      reason: why,
      gatewayRequestId: null,
      durationMs: null,
      firstTokenMs: null,
      tags,
      user,
      labels,
      models,
      retry: 0,
      owner: 0,
      adjusts: id,
      adjustedBy: by,
      servedPriceId: null,
      billing: standardBilling,
      runs: [],
      doubts: noDoubts,
      inDoubt: noMoney,
      delivered: null,
      consumption: null,
    });
    return "ok";
  }

  async setBudget(budget: Omit<Budget, "id">, at: number): Promise<Budget> {
    const { scope, period, mode, limit, warnPercent } = budget;
    const stored = { id: `${formatScope(scope)}/${period}`, scope, period, mode, limit, warnPercent };
    this.#state.budgets.set(stored.id, stored);
    this.#openFromCharges(stored, at);
    return stored;
  }

  async removeBudget(scope: string, period: string): Promise<boolean> {
    const id = `${scope}/${period}`;
    for (const [name, window] of this.#state.opened) if (window.budget === id) this.#state.opened.delete(name);
    this.#state.raises = this.#state.raises.filter((raise) => raise.budget !== id);
    return this.#state.budgets.delete(id);
  }

  async raiseBudget({ scope, period, subject, amount, from, until }: NewRaise, at: number): Promise<RaiseResult> {
    const budget = this.#state.budgets.get(`${scope}/${period}`);
    if (budget === undefined) return { ok: false, reason: "no_such_budget" };
    const lasting = this.#state.raises.filter((raise) => raise.until === null || raise.until > at);
    const raised = lasting.filter((raise) => raise.budget === budget.id && raise.subject === subject);
    if (budget.limit + amount + sum(raised.map((raise) => raise.amount)) > picoUsdMax)
      return { ok: false, reason: "too_large" };
    this.#state.raises.push({ budget: budget.id, subject, amount, from, until });
    this.#markOpen(budget, subject, at);
    return { ok: true, budget };
  }

  async windows(at: number): Promise<readonly BudgetWindow[]> {
    return [...this.#state.budgets.values()].flatMap((budget) => {
      if (!hasSubjects(budget.scope)) return [this.#window(budget, "", at)];
      const { start } = this.#calendar.spanOf(budget.period, at);
      return [...this.#state.opened.values()]
        .filter((window) => window.budget === budget.id && window.start === start)
        .map(({ subject }) => this.#window(budget, subject, at))
        .sort((a, b) => (a.subject < b.subject ? -1 : 1));
    });
  }

  async windowsOf(caller: Caller, at: number): Promise<readonly BudgetWindow[]> {
    return this.#windowNames(caller).map(([budget, subject]) => this.#window(budget, subject, at));
  }

  async charge(id: string): Promise<Charge | undefined> {
    const charge = this.#state.charges.get(id);
    return charge && shown(charge);
  }

  async charges({ limit }: ChargeQuery): Promise<ChargePage> {
    const newestFirst = this.#all()
      .map((charge, written) => ({ charge, written }))
      .sort((a, b) => b.charge.at - a.charge.at || b.written - a.written);
    invariant(newestFirst.length <= limit, "the model has no pages");
    return { charges: newestFirst.map(({ charge }) => shown(charge)), next: null, examinedTo: null };
  }

  async recent(query: RecentQuery): Promise<{ readonly charges: readonly Charge[]; readonly cursor: RecentCursor }> {
    const all = this.#all();
    const written = all.length;
    const scanned = all.map((charge, index) => ({ charge, seq: index + 1 })).slice(-chargesToScan(query));
    const charges = scanned
      .filter(({ charge, seq }) => isRecent(charge, seq, query))
      .toReversed()
      .slice(0, query.limit)
      .map(({ charge }) => shown(charge));
    return { charges, cursor: { written, endedAt: Math.max(0, ...scanned.map(({ charge }) => charge.endedAt ?? 0)) } };
  }

  async report(query: ReportQuery): Promise<readonly ReportRow[]> {
    const sums = new ReportSums(query.by);
    for (const posted of this.#posted(query))
      sums.add({ ...posted, cost: posted.cost ?? 0n, listCost: posted.listCost ?? 0n });
    return sums.rows();
  }

  async spend({ by, each, since, until, key, team, model, apart }: SpendQuery): Promise<readonly SpendRow[]> {
    const startOf = (at: number) => {
      if (each === "all") return since;
      if (each === "hour") return at - ((at - since) % hourMs);
      return this.#calendar.spanOf(each === "day" ? "1d" : "1mo", at).start;
    };
    const filters = [key, team, model];
    const posted = [...this.#posted({ by: ["key", "team", "model", ...by], since, until })].filter(({ dimensions }) =>
      filters.every((wanted, index) => wanted === undefined || (dimensions[index] ?? "") === wanted),
    );
    const groups = Map.groupBy(posted, ({ at, dimensions: [, , , ...names] }) => {
      const [first = null, ...rest] = names;
      const shown = apart === undefined || names.length === 0 || apart.includes(first) ? names : [otherNames, ...rest];
      return JSON.stringify([startOf(at), shown]);
    });
    const rows = [...groups].map(([name, posted]): SpendRow => {
      const [start, names] = JSON.parse(name) as [number, (string | null)[]];
      const count = (of: "requests" | "unpriced") => posted.reduce((total, each) => total + each[of], 0);
      const amount = (of: "cost" | "listCost" | "inDoubt") =>
        sum(posted.map((each) => (each[of] ?? noMoney) as PicoUsd));
      const amounts = { cost: amount("cost"), listCost: amount("listCost"), inDoubt: amount("inDoubt") };
      return { start, names, requests: count("requests"), unpricedRequests: count("unpriced"), ...amounts };
    });
    return rows.sort(byTimeAndNames);
  }

  async pending(): Promise<{ readonly count: number; readonly oldestAt: number | null }> {
    const times = this.#all()
      .filter(({ state }) => state === "pending")
      .map(({ at }) => at);
    return { count: times.length, oldestAt: times.length === 0 ? null : Math.min(...times) };
  }

  async totals(): Promise<LedgerTotals> {
    const all = this.#all();
    const posted = all.filter(({ state }) => state === "posted");
    const pending = all.filter(({ state }) => state === "pending");
    const requests = posted.filter(({ formula }) => formula !== "adjustment");
    const bySource = (of: "cost" | "inDoubt") => {
      const total = (source: Source) =>
        sum(posted.filter((charge) => charge.source === source).map((charge) => charge[of] ?? noMoney));
      return {
        reported: total("reported"),
        counted: total("counted"),
        partial: total("partial"),
        assumed: total("assumed"),
      };
    };
    return {
      written: all.length,
      posted: bySource("cost"),
      inDoubt: bySource("inDoubt"),
      requests: requests.length,
      unpriced: requests.filter(({ cost }) => cost === null).length,
      pending: pending.length,
      pendingUnpriced: pending.filter(({ hold }) => hold === null).length,
      held: sum(pending.map(({ hold }) => hold ?? noMoney)),
    };
  }

  async corrections(since: number, until: number): Promise<readonly LedgerCorrection[]> {
    const isInside = (at: number) => at >= since && at < until;
    return this.#all()
      .flatMap(({ adjusts, endedAt: madeAt, cost }) => {
        const ofChargeAt = adjusts === null ? null : (this.#state.charges.get(adjusts)?.endedAt ?? null);
        if (ofChargeAt === null || madeAt === null || cost === null) return [];
        return isInside(madeAt) || isInside(ofChargeAt) ? [{ madeAt, ofChargeAt, amount: cost }] : [];
      })
      .sort((a, b) => a.madeAt - b.madeAt);
  }

  async recover(at: number): Promise<number> {
    const end = { at, status: null, servedModel: null, gatewayRequestId: null, durationMs: null, firstTokenMs: null };
    const orphans = this.#all().filter(({ state, owner }) => state === "pending" && owner !== this.#run);
    for (const { id, hold } of orphans) {
      const posting = {
        kind: "post",
        cost: hold,
        listCost: hold,
        tokens: noTokens,
        formula: hold === null ? "unpriced" : "assumed",
        source: "assumed",
        minimumApplied: false,
        clamped: false,
        reason: "crash",
      } as const;
      await this.post(id, posting, end);
    }
    return orphans.length;
  }

  async #correctLate(command: PostCommand | VoidCommand): Promise<void> {
    const late = lateSettlement(command);
    const charge = late && this.#state.charges.get(late.id);
    if (!late || !charge || !isPostedForDeadProxy(charge)) return;
    const all = this.#all().filter(({ id, adjusts }) => id === late.id || adjusts === late.id);
    const correction = lateCorrection(
      late,
      sum(all.map(({ cost }) => cost ?? noMoney)),
      sum(all.map(({ listCost }) => listCost ?? noMoney)),
    );
    if (correction !== null) await this.adjust(late.id, correction);
  }

  #settle(id: string, end: ChargeEnd, ending: (charge: StoredCharge) => Partial<StoredCharge>): SettleResult {
    const charge = this.#state.charges.get(id);
    if (charge === undefined) return { ok: false, reason: "no_such_charge" };
    const first = charge.state === "pending";
    const { at: endedAt, ...known } = end;
    const ended = first ? { ...charge, ...ending(charge), ...known, endedAt } : charge;
    this.#put(ended);
    return { ok: true, first, state: ended.state, cost: ended.cost, overage: ended.overage };
  }

  /** Counts the users and tags that a key names for the first time. Returns false if there are too many on one day. */
  #admitsSubjects(caller: Caller, at: number): boolean {
    const opened = [...this.#state.opened.values()];
    const fresh = this.#windowNames(caller).filter(
      ([{ id, scope }, subject]) =>
        hasClientSubjects(scope) && !opened.some((window) => window.budget === id && window.subject === subject),
    );
    const added = new Set(fresh.map(([, subject]) => subject)).size;
    if (added === 0) return true;
    const day = this.#calendar.dateOf(at);
    const latest = this.#state.newSubjects.get(caller.key) ?? { day, subjects: 0 };
    const before = latest.day < day ? { day, subjects: 0 } : latest;
    const subjects = before.subjects + added;
    if (subjects > this.#subjectsMax) return false;
    this.#state.newSubjects.set(caller.key, { day: before.day, subjects });
    return true;
  }

  /** Opens the windows that apply to a caller at an instant. */
  #open(caller: Caller, at: number): BudgetWindow[] {
    return this.#windowNames(caller).map(([budget, subject]) => {
      this.#markOpen(budget, subject, at);
      return this.#window(budget, subject, at);
    });
  }

  #existing(charge: StoredCharge): BudgetWindow[] {
    return this.#windowNames(charge)
      .map(([budget, subject]) => this.#window(budget, subject, charge.at))
      .filter(({ budget, start, subject }) => this.#state.opened.has(windowName(budget, start, subject)));
  }

  #window(budget: Budget, subject: string, at: number): BudgetWindow {
    const span = this.#calendar.spanOf(budget.period, at);
    const inside = this.#all().filter(
      (charge) =>
        charge.at >= span.start &&
        (span.end === null || charge.at < span.end) &&
        appliesTo(budget.scope, charge) &&
        subjectsOf(budget.scope, charge).includes(subject),
    );
    const spent = sum(inside.map(({ cost }) => cost ?? noMoney));
    const held = sum(inside.filter(({ state }) => state === "pending").map(({ hold }) => hold ?? noMoney));
    return this.#withRaises({ budget, subject, ...span, spent, held, raises: [] }, at);
  }

  #withRaises(window: BudgetWindow, at: number): BudgetWindow {
    const { budget, subject, start, end } = window;
    const raises = this.#state.raises.filter((raise) => raise.budget === budget.id && raise.subject === subject);
    // A charge may be extended after the end of its window, or before its start if the clock was set back.
    const isOver = end !== null && at >= end;
    const inside = at < start ? start : isOver ? end - 1 : at;
    const inForce = raises.filter(({ from, until }) => inside >= from && (until === null || inside < until));
    return { ...window, raises: inForce.map(({ amount, from, until }) => ({ amount, from, until })) };
  }

  #openFromCharges(budget: Budget, at: number): void {
    const { start, end } = this.#calendar.spanOf(budget.period, at);
    if (!hasSubjects(budget.scope)) this.#markOpen(budget, "", at);
    for (const charge of this.#all()) {
      if (charge.state === "voided" || charge.at < start || (end !== null && charge.at >= end)) continue;
      if (!appliesTo(budget.scope, charge)) continue;
      for (const subject of subjectsOf(budget.scope, charge)) this.#markOpen(budget, subject, at);
    }
  }

  #markOpen(budget: Budget, subject: string, at: number): void {
    const { start } = this.#calendar.spanOf(budget.period, at);
    this.#state.opened.set(windowName(budget, start, subject), { budget: budget.id, start, subject });
  }

  #rebuild(at: number): void {
    this.#state.opened.clear();
    for (const budget of this.#state.budgets.values()) this.#openFromCharges(budget, at);
  }

  /** Returns the windows that apply to a caller, by budget and subject. */
  #windowNames(caller: Caller): [Budget, string][] {
    return [...this.#state.budgets.values()]
      .filter(({ scope }) => appliesTo(scope, caller))
      .flatMap((budget) => subjectsOf(budget.scope, caller).map((subject): [Budget, string] => [budget, subject]));
  }

  #dimensionOf(charge: Charge, dimension: ReportDimension): string | null {
    if (dimension === "day") return this.#calendar.dateOf(charge.at);
    if (dimension === "hour") return new Date(this.#calendar.spanOf("1h", charge.at).start).toISOString();
    if (isOfCharges(dimension)) {
      const named = namedDimension(dimension);
      return named === undefined
        ? charge.user
        : (new Map(Object.entries(charge[named.column])).get(named.name) ?? null);
    }
    return charge[dimension] === "" ? null : charge[dimension];
  }

  *#posted(query: ReportQuery): Iterable<PostedCharge> {
    const since = Math.floor(query.since / quarterMs) * quarterMs;
    const until = Math.ceil(query.until / quarterMs) * quarterMs;
    for (const charge of this.#all()) {
      const { source, at } = charge;
      if (charge.state !== "posted" || source === null || at < since || at >= until) continue;
      yield {
        ...charge,
        source,
        dimensions: query.by.map((dimension) => this.#dimensionOf(charge, dimension)),
        requests: charge.formula === "adjustment" ? 0 : 1,
        unpriced: charge.cost === null ? 1 : 0,
        retries: charge.retry > 0 ? 1 : 0,
      };
    }
  }

  #all(): StoredCharge[] {
    return [...this.#state.charges.values()];
  }

  #put(charge: StoredCharge): void {
    this.#state.charges.set(charge.id, charge);
  }
}

function shortageAmong(windows: readonly BudgetWindow[], amount: PicoUsd): Shortage | null {
  return worstShortage(windows.map((window) => shortageOf(window, amount)).filter((each) => each !== null));
}

/** Returns the model that a settled charge counts for: the one that answered, otherwise the most expensive one. */
function settledModels({ models }: StoredCharge, answered?: string): readonly string[] {
  return answered !== undefined && models.includes(answered) ? [answered] : models.slice(0, 1);
}

function windowName(budget: Budget, start: number, subject: string): string {
  return `${budget.id} ${start} ${subject}`;
}

function pendingCharge(
  request: HoldRequest,
  hold: PicoUsd | null,
  windows: readonly BudgetWindow[],
  owner: number,
): StoredCharge {
  const { id, kind, at, caller, route, model, group, stream, price, tags, models, retry, basis = null } = request;
  return {
    id,
    kind,
    state: "pending",
    at,
    endedAt: null,
    key: caller.key,
    team: caller.team,
    route,
    model,
    servedModel: null,
    group,
    stream,
    priceId: price?.id ?? null,
    hold,
    basis: basisToHold(windows, basis, request.sliceTokens ?? null),
    cost: null,
    listCost: null,
    overage: noMoney,
    formula: null,
    source: null,
    minimumApplied: false,
    clamped: false,
    tokens: noTokens,
    status: null,
    reason: null,
    gatewayRequestId: null,
    durationMs: null,
    firstTokenMs: null,
    tags,
    user: caller.user ?? null,
    labels: caller.labels ?? {},
    models: models ?? [model],
    retry,
    owner,
    adjusts: null,
    adjustedBy: null,
    servedPriceId: null,
    billing: standardBilling,
    runs: [],
    doubts: noDoubts,
    inDoubt: noMoney,
    delivered: null,
    consumption: null,
  };
}

function isRecent(charge: Charge, seq: number, { key, team, model, state, after }: RecentQuery): boolean {
  const isNew =
    after === undefined ||
    seq > after.written ||
    (charge.endedAt !== null && charge.endedAt >= after.endedAt - writeDelayMsMax);
  return (
    isNew &&
    Object.entries({ key, team, model, state }).every(
      ([name, value]) => value === undefined || charge[name as "key"] === value,
    )
  );
}

function byTimeAndNames(a: SpendRow, b: SpendRow): number {
  return (
    a.start - b.start || a.names.reduce((order, name, index) => order || compared(name ?? "", b.names[index] ?? ""), 0)
  );
}

function compared(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function shown({ owner: _owner, ...charge }: StoredCharge): Charge {
  return charge;
}
