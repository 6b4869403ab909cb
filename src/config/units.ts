const millisecondsIn = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const bytesIn = { "": 1, b: 1, kb: 1024, mb: 1024 ** 2, gb: 1024 ** 3 } as const;

const durationPattern = /^(\d{1,9})(ms|s|m|h|d)$/;
const bytesPattern = /^(\d{1,12})(b|kb|mb|gb)?$/;

/** Milliseconds of "250ms", "30s", "10m", "24h" or "7d"; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const match = durationPattern.exec(text);
  if (match === null) return undefined;
  return Number(match[1]) * millisecondsIn[match[2] as keyof typeof millisecondsIn];
}

/** Bytes of "512kb", "32mb", "1gb" (binary multiples, either letter case) or a plain number; undefined for anything else. */
export function parseBytes(text: string): number | undefined {
  const match = bytesPattern.exec(text.toLowerCase());
  if (match === null) return undefined;
  const bytes = Number(match[1]) * bytesIn[(match[2] ?? "") as keyof typeof bytesIn];
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
