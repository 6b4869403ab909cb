import {
  isIdleBetween,
  measureOf,
  postedTotal,
  unsettledAt,
  type AccountFigure,
  type AccountSample,
  type Measure,
} from "./account.ts";
import { sources, type Source } from "./charge.ts";
import { add, divideUp, larger, noMoney, smaller, subtract, sum, type PicoUsd } from "./money.ts";

/**
 * A correction in the ledger. Reconciliation counts it at the time when the corrected charge was settled, because the
 * gateway billed then.
 */
export interface LedgerCorrection {
  readonly madeAt: number;
  /** Time at which the corrected charge was settled. */
  readonly ofChargeAt: number;
  readonly amount: PicoUsd;
}

/**
 * Reason why the gateway may have billed less or more than the ledger shows: at most `below` less and `above` more. If
 * `above` is null, the amount is unlimited.
 */
export interface Uncertainty {
  readonly kind: "pending" | "assumed" | "partial" | "counted" | "in_doubt" | "unpriced" | "rounding";
  readonly below: PicoUsd;
  readonly above: PicoUsd | null;
}

/**
 * Movement of the account that the compared requests did not cause. `frozen` and `inactive` are net amounts, below zero
 * if credits were released. `isEstimate`: true if the amount is derived from the balance alone, while requests were in
 * flight.
 */
export interface Movement {
  readonly kind:
    | "top_up"
    | "withdrawn"
    | "expired"
    | "frozen"
    | "inactive"
    | "use_by_others"
    | "refund"
    | "unexplained";
  readonly amount: PicoUsd;
  readonly isEstimate: boolean;
}

/** An interval that cannot be compared. */
interface ExcludedInterval {
  readonly since: number;
  readonly until: number;
  readonly why: "topped_up" | "counter_fell";
}

export interface Reconciliation {
  /** Samples at the ends of the measured span. */
  readonly first: AccountSample;
  readonly last: AccountSample;
  readonly samples: number;
  readonly measure: Measure["name"];
  readonly requests: number;
  readonly ledger: PicoUsd;
  /** Part of `ledger` that comes from charges with doubts. */
  readonly inDoubt: PicoUsd;
  readonly gateway: PicoUsd;
  /** Gateway minus ledger; above zero if the gateway billed more. */
  readonly difference: PicoUsd;
  readonly uncertainties: readonly Uncertainty[];
  readonly below: PicoUsd;
  readonly above: PicoUsd | null;
  readonly agrees: boolean;
  readonly movements: readonly Movement[];
  readonly leftOut: readonly ExcludedInterval[];
}

export type ReconcileResult =
  | { readonly ok: true; readonly reconciliation: Reconciliation }
  /** `too_few`: fewer than two samples of one account. `no_measure`: no figure can be converted to USD. */
  | { readonly ok: false; readonly reason: "too_few" | "no_measure" };

export const comparisons = ["agree", "differs", "cannot_tell"] as const;

/** Divisor for the largest uncertainty at which ledger and gateway are said to agree: 1/20 of the amount, or 5%. */
const certainDivisor = 20n;

/**
 * Compares the ledger with the gateway. If the uncertainty exceeds 5% of the amount, a difference within it proves
 * nothing.
 */
export function comparisonOf({
  agrees,
  ledger,
  gateway,
  below,
  above,
}: Pick<Reconciliation, "agrees" | "ledger" | "gateway" | "below" | "above">): (typeof comparisons)[number] {
  if (!agrees) return "differs";
  if (above === null) return "cannot_tell";
  return larger(below, above) * certainDivisor > larger(ledger, gateway) ? "cannot_tell" : "agree";
}

/** The gateway bills chat in steps of 1e-7 USD, so it may round each charge by up to one step. */
const billedStep = 100_000n;

/**
 * Compares the ledger with the gateway's account. Samples must be in order of time. Reports movements of an idle
 * account separately, leaves out intervals that the record cannot measure, and compares all others.
 */
export function reconcile(
  samples: readonly AccountSample[],
  corrections: readonly LedgerCorrection[] = [],
): ReconcileResult {
  const ofAccount = latestAccount(samples);
  if (ofAccount.length < 2) return { ok: false, reason: "too_few" };
  const measure = measureOf(ofAccount);
  if (measure === undefined) return { ok: false, reason: "no_measure" };
  const stated = ofAccount.filter((sample) => measure.billed(sample) !== undefined);
  const [start, end] = settledEnds(stated);
  const [first, last] = [stated[start], stated[end]];
  if (first === undefined || last === undefined || start >= end) return { ok: false, reason: "too_few" };
  const intervals = intervalsOf(stated, start, end, measure, corrections);
  const compared = intervals.filter(({ kind }) => kind === "compared");
  const ledger = sum(compared.map((interval) => interval.ledger));
  const gateway = sum(compared.map((interval) => interval.gateway));
  const difference = subtract(gateway, ledger);
  const runs = runsOf(intervals);
  const uncertainties = uncertaintiesOf(runs, measure);
  const below = sum(uncertainties.map((each) => each.below));
  const above = uncertainties.some((each) => each.above === null)
    ? null
    : sum(uncertainties.map((each) => each.above ?? noMoney));
  return {
    ok: true,
    reconciliation: {
      first,
      last,
      samples: end - start + 1,
      measure: measure.name,
      ledger,
      gateway,
      difference,
      uncertainties,
      below,
      above,
      inDoubt: sum(runs.flatMap((run) => sources.map((source) => inDoubtOf(run, source)))),
      requests: compared.reduce((count, { from, to }) => count + to.before.requests - from.before.requests, 0),
      agrees: difference >= -below && (above === null || difference <= above),
      movements: [...movementsOf(intervals, measure), ...creditMovements(stated.slice(start, end + 1), measure)],
      leftOut: intervals.flatMap(({ kind, from, to }) =>
        kind === "topped_up" || kind === "counter_fell"
          ? [{ since: from.askedAt, until: to.answeredAt, why: kind }]
          : [],
      ),
    },
  };
}

/** Returns the latest samples that belong to one account. An earlier gateway key may belong to another account. */
function latestAccount(samples: readonly AccountSample[]): readonly AccountSample[] {
  const account = samples.at(-1)?.account ?? null;
  return samples.slice(samples.findLastIndex((sample) => sample.account !== account) + 1);
}

/**
 * Returns the indexes of the first and the last sample to compare. Chooses them within the first and the last quarter
 * of the span, where the unsettled amount is smallest.
 */
function settledEnds(samples: readonly AccountSample[]): readonly [start: number, end: number] {
  const earliest = samples[0]?.askedAt ?? 0;
  const latest = samples.at(-1)?.askedAt ?? 0;
  const quarterMs = (latest - earliest) / 4;
  let [start, end] = [0, samples.length - 1];
  const unsettled = samples.map(unsettledAt);
  const isBetter = (one: number, other: number) => (unsettled[one] ?? noMoney) < (unsettled[other] ?? noMoney);
  samples.forEach(({ askedAt }, index) => {
    if (askedAt <= earliest + quarterMs && isBetter(index, start)) start = index;
  });
  samples.forEach(({ askedAt }, index) => {
    if (askedAt >= latest - quarterMs && !isBetter(end, index)) end = index;
  });
  return [start, end];
}

/** The time between two adjacent samples. `quiet`: the account moved although no request was in flight. */
interface Interval {
  readonly from: AccountSample;
  readonly to: AccountSample;
  readonly ledger: PicoUsd;
  readonly gateway: PicoUsd;
  readonly kind: "compared" | "quiet" | ExcludedInterval["why"];
}

function intervalsOf(
  samples: readonly AccountSample[],
  start: number,
  end: number,
  measure: Measure,
  corrections: readonly LedgerCorrection[],
): Interval[] {
  const isIdle = (index: number) => {
    const [a, b] = [samples[index], samples[index + 1]];
    return a === undefined || b === undefined || isIdleBetween(a, b);
  };
  const intervals: Interval[] = [];
  for (let index = start; index < end; index++) {
    const [from, to] = [samples[index], samples[index + 1]];
    if (from === undefined || to === undefined) continue;
    const gateway = subtract(measure.billed(to) ?? noMoney, measure.billed(from) ?? noMoney);
    const ledger = add(subtract(postedTotal(to.before), postedTotal(from.before)), redated(corrections, from, to));
    // The gateway may bill with a delay, so the first idle interval after a request still belongs to the requests.
    const isQuiet = gateway !== 0n && isIdle(index) && (index === 0 || isIdle(index - 1));
    intervals.push({ from, to, ledger, gateway, kind: isQuiet ? "quiet" : kindOfBusy(gateway, measure) });
  }
  return intervals;
}

/**
 * Returns the kind of an interval in which requests may have run. A negative amount is not a bill: either the balance
 * rose or the counter of used credits fell.
 */
function kindOfBusy(gateway: PicoUsd, measure: Measure): Interval["kind"] {
  if (gateway >= -measure.step) return "compared";
  return measure.isCounter ? "counter_fell" : "topped_up";
}

/** Returns the amount to add to an interval's total so that each correction counts at the time of its charge. */
function redated(corrections: readonly LedgerCorrection[], from: AccountSample, to: AccountSample): PicoUsd {
  const isInside = (at: number) => at >= from.askedAt && at < to.askedAt;
  let change = 0n;
  for (const { madeAt, ofChargeAt, amount } of corrections) {
    if (isInside(madeAt)) change -= amount;
    if (isInside(ofChargeAt)) change += amount;
  }
  return change as PicoUsd;
}

/** Joins adjacent compared intervals into runs. Pending amounts are uncertain only at the ends of a run. */
function runsOf(intervals: readonly Interval[]): readonly Run[] {
  const runs: Run[] = [];
  let open: Run | undefined;
  for (const { kind, from, to, ledger } of intervals) {
    if (kind !== "compared") open = undefined;
    else if (open === undefined) runs.push((open = { from, to, ledger }));
    else runs[runs.length - 1] = open = { from: open.from, to, ledger: add(open.ledger, ledger) };
  }
  return runs;
}

function uncertaintiesOf(runs: readonly Run[], measure: Measure): Uncertainty[] {
  const total = (
    kind: Uncertainty["kind"],
    boundsOf: (run: Run) => readonly [below: bigint, above: bigint | null],
  ): Uncertainty => {
    const parts = runs.map(boundsOf);
    const below = sum(parts.map(([part]) => part as PicoUsd));
    const above = parts.some(([, part]) => part === null)
      ? null
      : sum(parts.map(([, part]) => (part ?? 0n) as PicoUsd));
    return { kind, below, above };
  };
  const uncertainties = [
    // Requests in flight at the start may have been billed before the start. Requests in flight at the end are not in
    // the ledger's total yet.
    total("pending", ({ from, to, ledger }) => [smaller(unsettledAt(from), larger(ledger, noMoney)), unsettledAt(to)]),
    // The hold is the highest possible cost.
    total("assumed", (run) => [postedBy(run, "assumed"), 0n]),
    // The gateway does not document how it bills an answer that was cut.
    total("partial", (run) => [postedBy(run, "partial"), postedBy(run, "partial")]),
    // Estimates are scaled up by a factor of at most two.
    total("counted", (run) => [postedBy(run, "counted") / 2n, postedBy(run, "counted") / 10n]),
    // The gateway may bill nothing or twice as much, whatever the source. Leaves out the amounts that the kinds above
    // already cover.
    total("in_doubt", (run) => {
      const [reported, counted, assumed] = [
        inDoubtOf(run, "reported"),
        inDoubtOf(run, "counted"),
        inDoubtOf(run, "assumed"),
      ];
      return [reported + counted - counted / 2n, reported + counted - counted / 10n + assumed];
    }),
    total("unpriced", ({ from, to }) => [
      0n,
      to.after.unpriced > from.before.unpriced || to.after.pendingUnpriced > 0 ? null : 0n,
    ]),
    total("rounding", ({ from, to }) => {
      const bound = measure.step + BigInt(to.before.requests - from.before.requests) * billedStep;
      return [bound, bound];
    }),
  ];
  return uncertainties.filter(({ below, above }) => below > 0n || above !== 0n);
}

/** A series of adjacent compared intervals. */
interface Run {
  readonly from: AccountSample;
  readonly to: AccountSample;
  readonly ledger: PicoUsd;
}

function postedBy({ from, to }: Run, source: Source): PicoUsd {
  return larger(subtract(to.before.posted[source], from.before.posted[source]), noMoney);
}

function inDoubtOf({ from, to }: Run, source: Source): PicoUsd {
  return larger(subtract(to.before.inDoubt[source], from.before.inDoubt[source]), noMoney);
}

/** Returns the movements of an idle account, and payments that are derived from the balance. */
function movementsOf(intervals: readonly Interval[], { isCounter }: Measure): Movement[] {
  const quiet = intervals.filter(({ kind }) => kind === "quiet").map(({ gateway }) => gateway);
  const paid = intervals
    .filter(({ kind }) => kind === "topped_up")
    .map(({ ledger, gateway }) => subtract(ledger, gateway));
  return movementsFrom([
    ["use_by_others", sum(quiet.filter((amount) => amount > 0n))],
    [isCounter ? "refund" : "top_up", -sum(quiet.filter((amount) => amount < 0n)) as PicoUsd],
    ["top_up", sum(paid), true],
  ]);
}

/** Returns the movements that the record's credit fields show; empty if only the balance is known. */
function creditMovements(samples: readonly AccountSample[], measure: Measure): Movement[] {
  if (!measure.isCounter) return [];
  const isPack = measure.name === "used_credits";
  const credited = changes(
    samples,
    isPack ? (sample) => measure.usd(sample, "total_credits") : (sample) => walletTotal(sample, measure),
  );
  const net = (name: AccountFigure) => sum(changes(samples, (sample) => measure.usd(sample, name)) ?? []);
  const [expired, frozen, inactive] = isPack
    ? [net("expired_credits"), net("frozen_credits"), net("inactive_credits")]
    : [noMoney, net("credit_frozen"), noMoney];
  return movementsFrom([
    ["top_up", sum((credited ?? []).filter((amount) => amount > 0n))],
    ["withdrawn", -sum((credited ?? []).filter((amount) => amount < 0n)) as PicoUsd],
    ["expired", expired],
    ["frozen", frozen],
    ["inactive", inactive],
    ["unexplained", unexplained()],
  ]);

  /** Returns the part of the balance's movement that the credit fields do not explain. */
  function unexplained(): PicoUsd {
    const balance = changes(samples, (sample) => measure.usd(sample, "equivalent_in_usd"));
    const used = changes(samples, (sample) => measure.billed(sample));
    if (balance === undefined || credited === undefined || used === undefined) return noMoney;
    const difference = subtract(sum(balance), subtract(sum(credited), sum([...used, expired, frozen, inactive])));
    return larger(difference, -difference as PicoUsd) > balanceStepMax ? difference : noMoney;
  }
}

/** Largest rounding error of a movement of the balance: two cents, because both ends may be rounded to whole cents. */
const balanceStepMax = 20_000_000_000n;

/** Returns the changes of a figure between adjacent samples; undefined if a sample lacks the figure. */
function changes(
  samples: readonly AccountSample[],
  figureOf: (sample: AccountSample) => PicoUsd | undefined,
): PicoUsd[] | undefined {
  const values = samples.map(figureOf);
  if (values.some((value) => value === undefined)) return undefined;
  return values.slice(1).map((value, index) => subtract(value ?? noMoney, values[index] ?? noMoney));
}

function walletTotal(sample: AccountSample, measure: Measure): PicoUsd | undefined {
  const [left, used] = [measure.usd(sample, "credit_remain"), measure.usd(sample, "credit_used")];
  if (left === undefined || used === undefined) return undefined;
  return sum([left, used, measure.usd(sample, "credit_frozen") ?? noMoney]);
}

/** Returns the movements whose amount is not 0. */
function movementsFrom(
  amounts: readonly (readonly [kind: Movement["kind"], amount: PicoUsd, isEstimate?: true])[],
): Movement[] {
  return amounts.flatMap(([kind, amount, isEstimate = false]) => (amount === 0n ? [] : [{ kind, amount, isEstimate }]));
}

/**
 * Amount that the gateway billed for each USD in the ledger, in millionths, with its bounds. A null bound is unknown.
 */
interface BillFactor {
  readonly value: bigint;
  readonly from: bigint | null;
  readonly to: bigint | null;
}

/** Cost of a group within the compared charges, and the group's fraction of the official price in millionths. */
export interface GroupCost {
  readonly group: string;
  readonly cost: PicoUsd;
  readonly fraction: bigint;
}

/** Fraction at which one group alone would explain the whole difference, in millionths. */
export interface GroupExplanation {
  readonly group: string;
  readonly fraction: bigint;
  readonly insteadOf: bigint;
  /** Range of fractions that are possible within the uncertainty. */
  readonly from: bigint;
  readonly to: bigint;
}

const million = 1_000_000n;
/** Gateways state fractions in steps of 5%. */
const step = 50_000n;

type Compared = Pick<Reconciliation, "ledger" | "gateway" | "below" | "above" | "difference" | "agrees">;

/** Returns the ratio of the gateway's bill to the ledger's total; null if the ledger charged nothing. */
export function billFactor({ ledger, gateway, below, above }: Compared): BillFactor | null {
  if (ledger <= 0n) return null;
  return {
    value: (gateway * million) / ledger,
    from: above === null ? null : (gateway * million) / (ledger + above),
    to: ledger <= below ? null : roundedUp(gateway * million, ledger - below),
  };
}

/**
 * Returns the groups for which a different fraction would explain the whole difference. Considers multiples of 0.05.
 * Returns none if gateway and ledger agree within the uncertainty.
 */
export function explainingGroups(
  { ledger, difference, below, above, agrees }: Compared,
  groups: readonly GroupCost[],
): GroupExplanation[] {
  const total = sum(groups.map(({ cost }) => cost));
  if (agrees || above === null || ledger <= 0n || total <= 0n) return [];
  return groups.flatMap(({ group, cost, fraction }) => {
    // The span of `groups` may be up to 15 minutes longer than the compared one, so this scales the costs to the
    // compared total.
    const charged = (cost * ledger) / total;
    if (charged <= 0n) return [];
    const at = (billed: bigint) => (fraction * (charged + billed)) / charged;
    const [from, to] = [at(difference - above), at(difference + below) + 1n];
    const nearest = ((at(difference) + step / 2n) / step) * step;
    const explains =
      nearest > 0n &&
      nearest <= million &&
      nearest !== fraction &&
      from <= nearest &&
      nearest <= to &&
      to - from < step;
    return explains ? [{ group, fraction: nearest, insteadOf: fraction, from, to }] : [];
  });
}

function roundedUp(value: bigint, by: bigint): bigint {
  return value > 0n ? divideUp(value, by) : value / by;
}
