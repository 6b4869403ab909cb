export const minuteMs = 60_000;
/** Quarter hours start at whole quarters of UTC, because the offsets of all current time zones are whole quarters. */
export const quarterHourMs = 15 * minuteMs;
export const hourMs = 60 * minuteMs;
/** Length of a day without a clock change. */
export const dayMs = 24 * hourMs;

const millisecondsIn = { ms: 1, s: 1_000, m: minuteMs, h: hourMs, d: dayMs } as const;

const durationPattern = /^(\d{1,9})(ms|s|m|h|d)$/;

/**
 * Parses a duration such as "250ms", "30s", "10m", "24h" or "7d" into milliseconds. Returns undefined for any other
 * text.
 */
export function parseDuration(text: string): number | undefined {
  const match = durationPattern.exec(text);
  if (match === null) return undefined;
  return Number(match[1]) * millisecondsIn[match[2] as keyof typeof millisecondsIn];
}

/** Returns the time in ISO 8601, UTC: the form of all times in answers. */
export function isoTime(at: number): string {
  return new Date(at).toISOString();
}

export function isoTimeOrNull(at: number | null): string | null {
  return at === null ? null : isoTime(at);
}
