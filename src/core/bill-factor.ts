import { sum, type PicoUsd } from "./money.ts";
import type { Reconciliation } from "./reconciliation.ts";

/** Amount billed for each USD of the ledger, in millionths. A null bound is unknown. */
export interface BillFactor {
  readonly value: bigint;
  readonly from: bigint | null;
  readonly to: bigint | null;
}

/** A group's part of the compared charges, and its share of the official price in millionths. */
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
  /** Range that the uncertainty leaves open. */
  readonly from: bigint;
  readonly to: bigint;
}

const million = 1_000_000n;
/** Gateways state fractions in steps of 5%. */
const step = 50_000n;

type Compared = Pick<Reconciliation, "ledger" | "gateway" | "below" | "above" | "difference" | "agrees">;

/** Null where the ledger charged nothing. */
export function billFactor({ ledger, gateway, below, above }: Compared): BillFactor | null {
  if (ledger <= 0n) return null;
  return {
    value: (gateway * million) / ledger,
    from: above === null ? null : (gateway * million) / (ledger + above),
    to: ledger <= below ? null : roundedUp(gateway * million, ledger - below),
  };
}

/**
 * Returns groups whose fraction, changed to another multiple of 0.05, would explain a difference beyond the
 * uncertainty.
 */
export function explainingGroups(
  { ledger, difference, below, above, agrees }: Compared,
  groups: readonly GroupCost[],
): GroupExplanation[] {
  const total = sum(groups.map(({ cost }) => cost));
  if (agrees || above === null || ledger <= 0n || total <= 0n) return [];
  return groups.flatMap(({ group, cost, fraction }) => {
    // The report's span exceeds the compared one by up to a quarter hour, so its parts are scaled to the compared sum.
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
  return value > 0n ? (value + by - 1n) / by : value / by;
}
