import type { Difference } from "../../ports/ledger.ts";

/** Derived row that can be repaired from the charges. */
export type Derived =
  /** Rows of one key in one quarter hour (an instant) or on one day (a local date). */
  | { readonly of: "rollup_quarter"; readonly time: number; readonly key: string }
  | { readonly of: "rollup_day"; readonly time: string; readonly key: string }
  | { readonly of: "window"; readonly seq: number }
  /** Windows that a charge is linked to. */
  | { readonly of: "links"; readonly charge: number }
  /** Number of requests in a carried sum. */
  | { readonly of: "carried"; readonly charge: number };

/** Difference with the derived row that repairs it; null if a charge, a price or a budget is wrong. */
export interface Finding extends Difference {
  readonly derived: Derived | null;
}

export type Report = (finding: Finding) => void;

/** Formats the columns that differ: "requests 2, cost 30". */
export function differing(
  names: readonly string[],
  expected: readonly unknown[],
  found: readonly unknown[],
): { expected: string; found: string } | null {
  const differ = names.map((_, index) => index).filter((index) => String(expected[index]) !== String(found[index]));
  if (differ.length === 0) return null;
  const text = (values: readonly unknown[]) =>
    differ.map((index) => `${names[index]} ${String(values[index])}`).join(", ");
  return { expected: text(expected), found: text(found) };
}
