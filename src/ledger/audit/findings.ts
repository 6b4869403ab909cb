import type { Difference } from "../../ports/ledger.ts";

/** Identifies derived rows that can be repaired from the charges. */
export type Derived =
  /** Rollup rows of one key in a quarter hour (`time` is its start) or on a day (`time` is a local date). */
  | { readonly of: "rollup_quarter"; readonly time: number; readonly key: string }
  | { readonly of: "rollup_day"; readonly time: string; readonly key: string }
  | { readonly of: "window"; readonly seq: number }
  /** Missing window that the next hold would expect to exist. `id`: name of the window in the report. */
  | { readonly of: "lost_window"; readonly budget: number; readonly id: string }
  /** Links of a charge to its windows. */
  | { readonly of: "links"; readonly charge: number }
  /** Counts of a carried sum. */
  | { readonly of: "carried"; readonly charge: number };

/**
 * Difference, with the derived row to repair. `derived` is null if a charge, a price or a budget is wrong: no repair is
 * possible.
 */
interface Finding extends Difference {
  readonly derived: Derived | null;
}

/** Receives each difference. */
export type Report = (finding: Finding) => void;

/**
 * Formats the expected and the found values of the columns that differ, such as "requests 2, cost 30". Returns null if
 * no column differs.
 */
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
