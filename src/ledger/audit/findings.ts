import type { Difference } from "../../ports/ledger.ts";

/** A derived row that can be repaired from the charges. */
export type Derived =
  /** The rows of one key in one quarter hour (an instant) or on one day (a local date). */
  | { readonly of: "rollup_quarter"; readonly time: number; readonly key: string }
  | { readonly of: "rollup_day"; readonly time: string; readonly key: string }
  | { readonly of: "window"; readonly seq: number }
  /** The windows that a charge is linked to. */
  | { readonly of: "links"; readonly charge: number }
  /** The number of requests in a carried sum. */
  | { readonly of: "carried"; readonly charge: number };

/** A difference, with the derived row that repairs it; null where a charge, a price or a budget is at fault. */
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
