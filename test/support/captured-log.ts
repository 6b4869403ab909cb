import type { Log } from "../../src/ports/log.ts";

export interface CapturedLine {
  readonly level: keyof Log;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** A log that a test can wait for. */
export interface CapturedLog extends Log {
  readonly lines: readonly CapturedLine[];
  /** Resolves once so many lines with this message have come, with all of them. */
  logged(message: string, count?: number): Promise<readonly CapturedLine[]>;
}

export function captureLog(): CapturedLog {
  const lines: CapturedLine[] = [];
  const waiters = new Set<() => void>();
  const take = (level: keyof Log) => (fields: object, message: string) => {
    lines.push({ level, fields: { ...fields }, message });
    for (const waiter of waiters) waiter();
  };
  return {
    debug: take("debug"),
    info: take("info"),
    warn: take("warn"),
    error: take("error"),
    lines,
    logged(message, count = 1) {
      return new Promise((resolve) => {
        const check = () => {
          const found = lines.filter((line) => line.message === message);
          if (found.length < count) return;
          waiters.delete(check);
          resolve(found);
        };
        waiters.add(check);
        check();
      });
    },
  };
}
