import { pino } from "pino";
import pretty from "pino-pretty";
import type { Log } from "../ports/log.ts";

/**
 * Returns a log that writes to stderr: readable lines on a terminal, otherwise one JSON line per event.
 * `worker` is the number of the process if there are several.
 */
export function createLog(options: {
  readonly level: string;
  readonly isTerminal: boolean;
  readonly worker?: number;
}): Log {
  const { level, isTerminal, worker } = options;
  const settings = { level, base: worker === undefined ? null : { worker }, timestamp: pino.stdTimeFunctions.isoTime };
  if (isTerminal)
    return pino(
      { ...settings, hooks: { streamWrite: withoutControls } },
      pretty({ destination: 2, colorize: true, sync: true }),
    );
  return pino(settings, pino.destination({ dest: 2, sync: true }));
}

/** Replaces escaped and literal control characters in a line of JSON, because a terminal acts on them. */
export function withoutControls(line: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what it matches
  return line.replace(
    /\\(u00[0189][0-9a-f]|[^])|[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gi,
    (found, escaped?: string) => (escaped === undefined || /^(?:u00|[bfr])/i.test(escaped) ? "\ufffd" : found),
  );
}

/** Log that writes nothing, for the demo's proxy and tests. */
export const silentLog: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore };

function ignore(): void {
  // A silent log drops every event.
}
