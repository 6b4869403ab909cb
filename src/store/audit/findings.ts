import type { Difference } from "../../ports/ledger.ts";

/** A derived row that can be made anew from the charges. */
export type Derived =
  /** The rows of one key in one quarter hour (an instant) or on one day (a local date). */
  | { readonly of: "rollup_quarter"; readonly time: number; readonly key: string }
  | { readonly of: "rollup_day"; readonly time: string; readonly key: string }
  | { readonly of: "window"; readonly seq: number }
  /** Which windows a charge weighs on. */
  | { readonly of: "links"; readonly charge: number }
  /** How many requests a carried sum is made of. */
  | { readonly of: "carried"; readonly charge: number };

/** A difference, with the derived row that mends it; null where a charge, a price or a budget is at fault. */
export interface Finding extends Difference {
  readonly derived: Derived | null;
}

export type Report = (finding: Finding) => void;

/** The columns that differ, as text: "requests 2, cost 30". */
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
