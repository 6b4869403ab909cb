/*
 * Figures for the user's locale. Money remains the decimal string of the server: Intl rounds it for display only, and the title
 * of each rounded figure has the exact amount.
 */

const dollars = { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" } as const;

const cents = new Intl.NumberFormat(undefined, dollars);
const fine = new Intl.NumberFormat(undefined, { ...dollars, minimumSignificantDigits: 1, maximumSignificantDigits: 3 });
const exact = new Intl.NumberFormat(undefined, { ...dollars, minimumFractionDigits: 2, maximumFractionDigits: 12 });
const rough = new Intl.NumberFormat(undefined, {
  ...dollars,
  notation: "compact",
  minimumFractionDigits: 0,
  maximumFractionDigits: 1,
});
const roughCents = new Intl.NumberFormat(undefined, { ...dollars, minimumFractionDigits: 2, maximumFractionDigits: 6 });
const whole = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const percents = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 0 });
const finePercents = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 1 });

const leastShare = 0.001;

type Numeric = Parameters<typeof cents.format>[0];

/** Formats an amount: with cents from USD 0.10, with three significant digits below. */
export function money(usd: string): string {
  const size = Math.abs(Number(usd));
  return size === 0 || size >= 0.1 ? cents.format(usd as Numeric) : fine.format(usd as Numeric);
}

/** Formats an amount with all of its digits. */
export function exactMoney(usd: string): string {
  return exact.format(usd as Numeric);
}

/** Formats the labels of an axis: whole dollars if every label is whole, otherwise with decimals. */
export function axisMoney(usd: readonly number[]): string[] {
  const whole = usd.every((each) => Number.isInteger(each));
  return usd.map((each) => (whole ? rough : roughCents).format(each));
}

export function count(value: number): string {
  return whole.format(value);
}

/** Formats a count: all digits below 10,000, otherwise abbreviated, as in "12.3K" and "4.5M". */
export function shortCount(value: number): string {
  return value < 10_000 ? whole.format(value) : compact.format(value);
}

/** Formats a share as a percentage. A share that would round to 0 becomes less than the smallest percentage: "<0.1%". */
export function percent(share: number): string {
  if (share > 0 && share < leastShare) return `<${finePercents.format(leastShare)}`;
  return Math.abs(share) < 0.1 && share !== 0 ? finePercents.format(share) : percents.format(share);
}

/** Returns one amount as a share of another, for bars. The share may exceed 1; it is 0 if `all` is 0. */
export function shareOf(part: string, all: string): number {
  const whole = Number(all);
  return whole > 0 ? Math.max(Number(part) / whole, 0) : 0;
}

const dayMs = 86_400_000;
/** Relative times are in English, like the rest of the page. */
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "long" });
const steps = [
  ["day", dayMs],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
] as const;

/** Formats a time relative to now: "5 minutes ago", "in 3 days". */
export function ago(iso: string, now = Date.now()): string {
  const difference = Date.parse(iso) - now;
  const [unit, size] = steps.find(([, each]) => Math.abs(difference) >= each) ?? ["second", 1000];
  return relative.format(Math.trunc(difference / size), unit);
}

/** Formats a number of hours: "3 days", "5 hours". */
export function lasting(hours: number): string {
  const [value, unit] = hours >= 48 ? [hours / 24, "day"] : hours >= 1 ? [hours, "hour"] : [hours * 60, "minute"];
  return new Intl.NumberFormat("en", { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 0 }).format(
    Math.floor(value),
  );
}

/** Formats a duration in milliseconds: "840ms", "2.4s". */
export function duration(ms: number): string {
  const [value, unit] = ms < 1000 ? [Math.round(ms), "millisecond"] : [ms / 1000, "second"];
  return new Intl.NumberFormat(undefined, {
    style: "unit",
    unit,
    unitDisplay: "narrow",
    maximumFractionDigits: value < 10 && unit === "second" ? 1 : 0,
  }).format(value);
}

export type TimeStyle = "full" | "moment" | "clock" | "day" | "date" | "hour" | "axisHour" | "short";

const timeStyles: Record<TimeStyle, Intl.DateTimeFormatOptions> = {
  full: { dateStyle: "medium", timeStyle: "long" },
  moment: { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" },
  clock: { hour: "numeric", minute: "2-digit", second: "2-digit" },
  day: { weekday: "short", month: "short", day: "numeric" },
  hour: { weekday: "short", hour: "numeric", minute: "2-digit" },
  date: { dateStyle: "medium" },
  axisHour: { hour: "numeric", minute: "2-digit" },
  short: { month: "short", day: "numeric" },
};

const made = new Map<string, Intl.DateTimeFormat>();

/** Formats an instant for the user's locale. Without a time zone, the user's own applies. */
export function instant(at: string | number, style: TimeStyle, timeZone?: string): string {
  const name = `${style} ${timeZone ?? ""}`;
  let format = made.get(name);
  if (format === undefined) {
    format = new Intl.DateTimeFormat(undefined, { ...timeStyles[style], ...(timeZone !== undefined && { timeZone }) });
    made.set(name, format);
  }
  return format.format(new Date(at));
}

/** Formats a time of day. Adds the date if it is not today. */
export function when(iso: string, now = Date.now()): string {
  const at = Date.parse(iso);
  const today = new Date(now).toDateString() === new Date(at).toDateString();
  return instant(iso, today ? "clock" : "moment");
}
