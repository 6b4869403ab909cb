import type { Log } from "../../src/ports/log.ts";

const ignore = () => undefined;

/** A log that writes nothing. */
export const silentLog: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore };

export interface CapturedLine {
  readonly level: keyof Log;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** A log that tests can wait for. */
export interface CapturedLog extends Log {
  readonly lines: readonly CapturedLine[];
  /** Resolves when at least `count` lines have this message (default: 1). Returns all lines with this message. */
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
