/*
 * Time ranges. The address of a page states a range as a preset (`span=7d`), as a first and a last day
 * (`since=2026-11-01` and `until=2026-11-09`), or as instants (`since=2026-11-09T14:00:00Z`). The server computes days
 * and months in its time zone.
 */

/** Presets: the label of each, and the `since` and `until` to send to the server. */
export const presets = {
  today: ["Today", "today", null],
  yesterday: ["Yesterday", "yesterday", "today"],
  "24h": ["Last 24 hours", "24h", null],
  "7d": ["Last 7 days", "7d", null],
  "30d": ["Last 30 days", "30d", null],
  "90d": ["Last 90 days", "90d", null],
  month: ["This month", "month", null],
  "last-month": ["Last month", "last-month", "month"],
} as const satisfies Record<string, readonly [label: string, since: string, until: string | null]>;

export type Preset = keyof typeof presets;

/** Time range: a preset, or two bounds. A bound of null is open. */
export interface Range {
  readonly preset: Preset | null;
  readonly since: string | null;
  readonly until: string | null;
}

const dayForm = /^\d{4}-\d{2}-\d{2}$/;

export function isDay(text: string | null): text is string {
  return text !== null && dayForm.test(text) && !Number.isNaN(Date.parse(text));
}

/** Returns the day that is `days` after `day`. Both days have the form "2026-11-09". */
export function addDays(day: string, days: number): string {
  return new Date(Date.parse(day) + days * 86_400_000).toISOString().slice(0, 10);
}

/** Parameters of an address that state a range. */
export const rangeNames = ["span", "since", "until"] as const;

/**
 * Reads a range from the parameters of an address. Ignores invalid values. If no range is left, returns
 * `defaultPreset`; null means all time.
 */
export function rangeFrom(query: URLSearchParams, defaultPreset: Preset | null): Range {
  const bound = (name: string) => {
    const text = query.get(name) ?? "";
    return Number.isNaN(Date.parse(text)) ? null : text;
  };
  const [since, until] = [bound("since"), bound("until")];
  if (since !== null || until !== null) return { preset: null, since, until };
  const named = query.get("span") ?? "";
  return { preset: Object.hasOwn(presets, named) ? (named as Preset) : defaultPreset, since: null, until: null };
}

/** Returns the bounds to send to the server. A range includes its last day, so `until` is the day after. */
export function boundsOf({ preset, since, until }: Range): { since: string | null; until: string | null } {
  if (preset !== null) return { since: presets[preset][1], until: presets[preset][2] };
  return { since, until: isDay(until) ? addDays(until, 1) : until };
}

/** Returns the day of an instant in a time zone, such as "2026-11-09". */
export function dayOf(at: number, zone: string): string {
  return new Intl.DateTimeFormat("sv", { timeZone: zone }).format(at);
}
