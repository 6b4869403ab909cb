import { plainDecimal, scaledDecimal } from "./money.ts";

/** Consumption of tasks in one type of unit that no price file values. */
export interface RawUnits {
  /** "" where none is stated. */
  readonly type: string;
  /** A plain decimal. */
  readonly units: string;
  readonly tasks: number;
}

/** Sums units by type, sorted by type. Exact: never uses a floating-point number. */
export function sumRawUnits(rows: readonly RawUnits[]): readonly RawUnits[] {
  const scale = rows.reduce(
    (largest, { units }) => (scaledDecimal(units).scale > largest ? scaledDecimal(units).scale : largest),
    1n,
  );
  const sums = new Map<string, { digits: bigint; tasks: number }>();
  for (const { type, units, tasks } of rows) {
    const sum = sums.get(type) ?? { digits: 0n, tasks: 0 };
    const one = scaledDecimal(units);
    sums.set(type, { digits: sum.digits + one.digits * (scale / one.scale) * BigInt(tasks), tasks: sum.tasks + tasks });
  }
  return [...sums]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([type, { digits, tasks }]) => ({ type, units: decimalText(digits, scale), tasks }));
}

function decimalText(digits: bigint, scale: bigint): string {
  const text = `${digits / scale}.${String(digits % scale).padStart(String(scale).length - 1, "0")}`;
  return plainDecimal(text) ?? text;
}
