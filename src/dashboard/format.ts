/*
 * Formats figures for the user's locale. An amount stays the decimal string that the server sent. Intl rounds it for
 * display only, and the title of each rounded figure has the exact amount.
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

/** Formats an amount: with cents from USD 0.10, otherwise with up to three significant digits. */
export function money(usd: string): string {
  const size = Math.abs(Number(usd));
  return withMinus((size === 0 || size >= 0.1 ? cents : fine).format(usd as Numeric));
}

/** Formats an amount with all of its digits. */
export function exactMoney(usd: string): string {
  return withMinus(exact.format(usd as Numeric));
}

const decimals = 12;

/** Returns `usd` minus all of `less`, exactly, with at least two decimals. */
export function difference(usd: string, ...less: readonly string[]): string {
  const [first = 0n, ...others] = [usd, ...less].map((text) => {
    const [units = "", part = ""] = text.split(".");
    return BigInt(units + part.padEnd(decimals, "0"));
  });
  const rest = others.reduce((left, each) => left - each, first);
  const digits = String(rest < 0n ? -rest : rest).padStart(decimals + 1, "0");
  const amount = `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/0{1,10}$/, "");
  return rest < 0n ? `-${amount}` : amount;
}

/** Replaces the hyphen before a negative figure with a minus sign. */
function withMinus(text: string): string {
  return text.replace("-", "−");
}

/** Formats the labels of an axis: abbreviated if all are whole dollars, otherwise with decimals. */
export function axisMoney(usd: readonly number[]): string[] {
  const areWhole = usd.every((each) => Number.isInteger(each));
  return usd.map((each) => (areWhole ? rough : roughCents).format(each));
}

export function count(value: number): string {
  return whole.format(value);
}

/** Formats a count with its noun: "1 key", "3 keys". */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Formats a count: all digits below 10,000, otherwise abbreviated, as in "12.3K" and "4.5M". */
export function shortCount(value: number): string {
  return value < 10_000 ? whole.format(value) : compact.format(value);
}

/** Formats a share as a percentage. A share between 0 and 0.1% becomes "<0.1%". */
export function percent(share: number): string {
  if (share > 0 && share < leastShare) return `<${finePercents.format(leastShare)}`;
  return withMinus((Math.abs(share) < 0.1 && share !== 0 ? finePercents : percents).format(share));
}

/** Returns `part` divided by `all`, for bars. The share may exceed 1. It is 0 if `all` is 0 or `part` is negative. */
export function shareOf(part: string, all: string): number {
  const total = Number(all);
  return total > 0 ? Math.max(Number(part) / total, 0) : 0;
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
  const aheadMs = Date.parse(iso) - now;
  const [unit, size] = steps.find(([, each]) => Math.abs(aheadMs) >= each) ?? ["second", 1000];
  return relative.format(Math.trunc(aheadMs / size), unit);
}

/** Formats a number of hours, rounded down: "3 days", "5 hours". */
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

const timeStyles = {
  full: { dateStyle: "medium", timeStyle: "long" },
  minute: { dateStyle: "medium", timeStyle: "short" },
  moment: { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" },
  clock: { hour: "numeric", minute: "2-digit", second: "2-digit" },
  day: { weekday: "short", month: "short", day: "numeric" },
  hour: { weekday: "short", hour: "numeric", minute: "2-digit" },
  date: { dateStyle: "medium" },
  month: { month: "long", year: "numeric" },
  axisMonth: { month: "short", year: "numeric" },
  axisHour: { hour: "numeric", minute: "2-digit" },
  short: { month: "short", day: "numeric" },
} as const satisfies Record<string, Intl.DateTimeFormatOptions>;

export type TimeStyle = keyof typeof timeStyles;

const formats = new Map<string, Intl.DateTimeFormat>();

/** Formats an instant for the user's locale, in `timeZone` or else in the user's time zone. */
export function instant(at: string | number, style: TimeStyle, timeZone?: string): string {
  const name = `${style} ${timeZone ?? ""}`;
  let format = formats.get(name);
  if (format === undefined) {
    format = new Intl.DateTimeFormat(undefined, { ...timeStyles[style], ...(timeZone !== undefined && { timeZone }) });
    formats.set(name, format);
  }
  return format.format(new Date(at));
}

/** Formats a time of today as a time of day, and any other time with its date. */
export function when(iso: string, now = Date.now()): string {
  const at = Date.parse(iso);
  const today = new Date(now).toDateString() === new Date(at).toDateString();
  return instant(iso, today ? "clock" : "moment");
}

/** Formats rows as CSV. Puts an apostrophe before text that a spreadsheet would run as a formula. */
export function csvOf(rows: readonly (readonly string[])[]): string {
  const safe = (text: string) =>
    !/^-?\d+(\.\d+)?$/.test(text) && /^\s*[=+\-@|%＝＋－＠]|^[\t\r\n]/.test(text) ? `'${text}` : text;
  return rows.map((row) => `${row.map((text) => `"${safe(text).replaceAll('"', '""')}"`).join(",")}\r\n`).join("");
}
