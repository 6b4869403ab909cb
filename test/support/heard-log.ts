import type { Log } from "../../src/ports/log.ts";

export interface HeardLine {
  readonly level: keyof Log;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

/** A log that a test can wait for. */
export interface HeardLog extends Log {
  readonly lines: readonly HeardLine[];
  /** Resolves once so many lines with this message have come, with all of them. */
  heard(message: string, count?: number): Promise<readonly HeardLine[]>;
}

export function heardLog(): HeardLog {
  const lines: HeardLine[] = [];
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
    heard(message, count = 1) {
      return new Promise((resolve) => {
        const look = () => {
          const found = lines.filter((line) => line.message === message);
          if (found.length < count) return;
          waiters.delete(look);
          resolve(found);
        };
        waiters.add(look);
        look();
      });
    },
  };
}
