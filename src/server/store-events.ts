import type { Log } from "../ports/log.ts";
import type { StoreEvent } from "../ledger/health.ts";

/** Logs an event of the ledger's file; docs/troubleshooting.md says what to do about each. */
export function logStoreEvent(event: StoreEvent, path: string, log: Log): void {
  switch (event.kind) {
    case "unwritable":
      log.error(
        { database: path, reason: event.reason },
        "the ledger cannot be written: nothing is forwarded until it can, and settlements wait",
      );
      return;
    case "writable":
      log.warn(
        { database: path, after_ms: Math.round(event.afterMs), settlements: event.waited },
        "the ledger can be written again",
      );
      return;
    case "copied":
      log.error(
        { database: path, copy: event.copy },
        "the ledger's file is not at its path any more: stop serve, put the file or this copy of it back, and start again",
      );
      return;
    case "not_copied":
      log.error(
        { database: path, pid: process.pid, reason: event.reason },
        "the ledger's file is not at its path any more, and could not be copied: it is lost with this process",
      );
  }
}
