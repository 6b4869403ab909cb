/** Base of the timestamps, and their range in microseconds: five digits, which repeat after a minute. */
const base = 36;
const range = base ** 5;

/**
 * Returns the time in microseconds for the text of a chunk. It is short, because the chunks of real streams have the text
 * of about one token. All processes of this machine share the clock.
 */
export function timestamp(): string {
  return (nowUs() % range).toString(base);
}

/** Returns the microseconds since a timestamp was written, at most a minute ago. */
export function sinceUs(text: string, now = nowUs()): number {
  return ((now % range) - Number.parseInt(text, base) + range) % range;
}

export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
