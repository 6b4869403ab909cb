const bytesIn = { "": 1, b: 1, kb: 1024, mb: 1024 ** 2, gb: 1024 ** 3 } as const;

const bytesPattern = /^(\d{1,12})(b|kb|mb|gb)?$/;

/** Bytes of "512kb", "32mb", "1gb" (binary multiples, either letter case) or a plain number; undefined for anything else. */
export function parseBytes(text: string): number | undefined {
  const match = bytesPattern.exec(text.toLowerCase());
  if (match === null) return undefined;
  const bytes = Number(match[1]) * bytesIn[(match[2] ?? "") as keyof typeof bytesIn];
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}
