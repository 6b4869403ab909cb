import { pino } from "pino";
import pretty from "pino-pretty";
import type { Log } from "../ports/log.ts";

/** One JSON line an event on stderr; readable lines on a terminal. `worker`: the number of the process, where there are several. */
export function createLog(options: { readonly level: string; readonly isTerminal: boolean; readonly worker?: number }): Log {
  const { level, isTerminal, worker } = options;
  const settings = { level, base: worker === undefined ? null : { worker }, timestamp: pino.stdTimeFunctions.isoTime };
  if (isTerminal) return pino(settings, pretty({ destination: 2, colorize: true, sync: true }));
  return pino(settings, pino.destination({ dest: 2, sync: true }));
}

/** Where nobody reads: the demo's proxy and tests. */
export const silentLog: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore };

function ignore(): void {
  // Nothing is kept.
}
