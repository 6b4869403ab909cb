const factors: readonly (readonly [number, string])[] = [
  [1e9, "B"],
  [1e6, "M"],
  [1e3, "K"],
];
const binary: readonly (readonly [number, string])[] = [
  [2 ** 30, " GiB"],
  [2 ** 20, " MiB"],
  [2 ** 10, " KiB"],
];
const spans: readonly (readonly [number, string])[] = [
  [86_400, " days"],
  [3600, " h"],
  [60, " min"],
  [1, " s"],
  [1e-3, " ms"],
  [0, " µs"],
];

/** Rounds to three significant digits, but never digits before the decimal point. */
function digits(value: number, decimals?: number): string {
  if (decimals !== undefined) return value.toFixed(decimals);
  const size = Math.abs(value);
  if (size === 0) return "0";
  const places = Math.max(0, 2 - Math.floor(Math.log10(size)));
  return value
    .toFixed(Math.min(places, 8))
    .replace(/(\.\d*?)0+$/, "$1")
    .replace(/\.$/, "");
}

function scaled(value: number, steps: readonly (readonly [number, string])[], decimals?: number): string {
  const [factor, suffix] = steps.find(([from]) => Math.abs(value) >= from) ?? [1, ""];
  return `${digits(value / (factor || 1e-6), factor === 1 ? decimals : undefined)}${suffix}`;
}

/** Formats a value as Grafana does, for the units of the dashboards. */
export function withUnit(value: number, unit: string, decimals?: number): string {
  if (!Number.isFinite(value)) return "–";
  if (unit === "currencyUSD")
    return `${value < 0 ? "-" : ""}$${scaled(Math.abs(value), factors, Math.abs(value) >= 1 ? 2 : decimals)}`;
  if (unit === "percentunit") return `${digits(value * 100, decimals)}%`;
  if (unit === "s") return value === 0 ? "0 s" : scaled(value, spans);
  if (unit === "bytes") return value === 0 ? "0 B" : scaled(value, binary);
  const text = scaled(value, factors, decimals);
  if (unit === "reqps") return `${text} req/s`;
  if (unit === "ops") return `${text} ops/s`;
  return unit.startsWith("suffix:") ? `${text}${unit.slice("suffix:".length)}` : text;
}
