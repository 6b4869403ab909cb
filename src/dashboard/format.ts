/*
 * Figures for the reader's locale. Money stays the decimal string of the server. Intl rounds the
 * string for display only, and every rounded figure has the exact one in its title.
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

/** Rounds an amount: to cents from 0.10 on, to three digits below. */
export function money(usd: string): string {
  const size = Math.abs(Number(usd));
  return size === 0 || size >= 0.1 ? cents.format(usd as Numeric) : fine.format(usd as Numeric);
}

/** Shows every digit of an amount. */
export function exactMoney(usd: string): string {
  return exact.format(usd as Numeric);
}

/** Labels an axis: in whole dollars if all are, else with the digits that they need. */
export function axisMoney(usd: readonly number[]): string[] {
  const whole = usd.every((each) => Number.isInteger(each));
  return usd.map((each) => (whole ? rough : roughCents).format(each));
}

export function count(value: number): string {
  return whole.format(value);
}

/** 12.3K, 4.5M. */
export function shortCount(value: number): string {
  return value < 10_000 ? whole.format(value) : compact.format(value);
}

/** Shows a share that would round to 0 as less than the smallest shown value. */
export function percent(share: number): string {
  if (share > 0 && share < leastShare) return `<${finePercents.format(leastShare)}`;
  return Math.abs(share) < 0.1 && share !== 0 ? finePercents.format(share) : percents.format(share);
}

/** Share of one amount in another, for bars; may exceed 1; 0 if the whole is 0. */
export function shareOf(part: string, all: string): number {
  const whole = Number(all);
  return whole > 0 ? Math.max(Number(part) / whole, 0) : 0;
}

const dayMs = 86_400_000;
/** Words of durations are English, as the page is. */
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "long" });
const steps = [
  ["day", dayMs],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
] as const;

/** "5 minutes ago", "in 3 days". */
export function ago(iso: string, now = Date.now()): string {
  const difference = Date.parse(iso) - now;
  const [unit, size] = steps.find(([, each]) => Math.abs(difference) >= each) ?? ["second", 1000];
  return relative.format(Math.trunc(difference / size), unit);
}

/** "3 days", "5 hours". */
export function lasting(hours: number): string {
  const [value, unit] = hours >= 48 ? [hours / 24, "day"] : hours >= 1 ? [hours, "hour"] : [hours * 60, "minute"];
  return new Intl.NumberFormat("en", { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 0 }).format(
    Math.floor(value),
  );
}

/** "840ms", "2.4s". */
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

/** Formats an instant for the user's locale, in the given time zone, else the user's. */
export function instant(at: string | number, style: TimeStyle, timeZone?: string): string {
  const name = `${style} ${timeZone ?? ""}`;
  let format = made.get(name);
  if (format === undefined) {
    format = new Intl.DateTimeFormat(undefined, { ...timeStyles[style], ...(timeZone !== undefined && { timeZone }) });
    made.set(name, format);
  }
  return format.format(new Date(at));
}

/** Shows the time of day, with the date if it is not today. */
export function when(iso: string, now = Date.now()): string {
  const at = Date.parse(iso);
  const today = new Date(now).toDateString() === new Date(at).toDateString();
  return instant(iso, today ? "clock" : "moment");
}
