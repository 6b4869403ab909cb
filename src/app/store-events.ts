import type { Log } from "../ports/log.ts";
import type { StoreEvent } from "../store/sqlite/health.ts";

/** Log lines of what happens to the ledger's file; docs/operating.md says what to do about each. */
export function tellStoreEvent(event: StoreEvent, path: string, log: Log): void {
  switch (event.kind) {
    case "unwritable":
      log.error({ database: path, reason: event.reason }, "the ledger cannot be written: nothing is forwarded until it can, and settlements wait");
      return;
    case "writable":
      log.warn({ database: path, after_ms: Math.round(event.afterMs), settlements: event.waited }, "the ledger can be written again");
  }
}
