import { Writable } from "node:stream";
import { pino } from "pino";
import type { Log } from "../ports/log.ts";

/**
 * Largest size of the log lines that wait while stderr cannot be written, as on a full disk, in bytes. Later lines are
 * dropped.
 */
const unwrittenBytesMax = 1024 * 1024;

/**
 * Returns a log that writes to stderr: readable lines on a terminal, otherwise one JSON line per event.
 * `worker` is the number of the process if there are several.
 */
export async function createLog(options: {
  readonly level: string;
  readonly isTerminal: boolean;
  readonly worker?: number;
}): Promise<Log> {
  const { level, isTerminal, worker } = options;
  const lines = pino.destination({ dest: 2, sync: true, maxLength: unwrittenBytesMax });
  // Without a listener, the error of a full disk would end the proxy.
  lines.on("error", () => undefined);
  const settings = { level, base: worker === undefined ? null : { worker }, timestamp: pino.stdTimeFunctions.isoTime };
  if (isTerminal) {
    const { build } = await import("pino-pretty");
    const destination = new Writable({
      write(line: Buffer, _encoding, done) {
        lines.write(line.toString());
        done();
      },
    });
    const readable: Log = pino(
      { ...settings, hooks: { streamWrite: withoutControls } },
      build({ destination, colorize: true }),
    );
    return readable;
  }
  const log: Log = pino(settings, lines);
  return log;
}

/** Replaces escaped and literal control characters in a line of JSON, because a terminal acts on them. */
export function withoutControls(line: string): string {
  // oxlint-disable-next-line no-control-regex -- it searches for control characters
  return line.replace(
    /\\(u00[0189][0-9a-f]|[^])|[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gi,
    (found, escaped?: string) => (escaped === undefined || /^(?:u00|[bfr])/i.test(escaped) ? "\ufffd" : found),
  );
}
