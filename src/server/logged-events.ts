import { hourMs } from "../core/time.ts";
import type { Reload } from "../catalogue/watched-prices.ts";
import type { PriceReloads } from "./metrics/job-metrics.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Log } from "../ports/log.ts";
import type { StoreEvent } from "../ledger/queue.ts";

/** Largest number of faults that are logged after a reload. `farebox prices check` lists all of them. */
const faultsLoggedMax = 20;

/** Logs and counts the result of reading the price files again. */
export function logReload(
  reload: Reload,
  to: { readonly log: Log; readonly count: PriceReloads; readonly at: number },
): void {
  const { log, count, at } = to;
  if (reload.kind === "applied") {
    count.ok(at);
    const { digest } = reload.catalogue;
    log.info(
      { before: reload.before, digest, models: reload.catalogue.list(at).length },
      reload.before === digest ? "price files reloaded; no price has changed" : "new prices are in force",
    );
    return;
  }
  count.refused();
  const { faults } = reload;
  for (const { file, line, column, message } of faults.slice(0, faultsLoggedMax)) {
    log.warn(
      { file, line, column, fault: message, faults: faults.length },
      "a price file is refused; the previous prices stay in force",
    );
  }
}

/**
 * Largest number of changes that are logged in an hour. A gateway that passes on the errors of several providers may
 * refuse the key for one model only.
 */
const keyChangesMax = 10;

/** Returns an event handler that logs one line when the gateway begins to refuse the key, and one when it accepts it. */
export function keyLog(log: Log, clock: Pick<Clock, "monotonic">): Pick<Events, "gatewayKey"> {
  let wasRefused = false;
  let changes = { since: clock.monotonic(), count: 0 };
  return {
    gatewayKey({ isRefused }) {
      // Several workers may report the same change.
      if (isRefused === wasRefused) return;
      wasRefused = isRefused;
      const now = clock.monotonic();
      if (now - changes.since >= hourMs) changes = { since: now, count: 0 };
      changes.count += 1;
      if (changes.count > keyChangesMax) return;
      if (isRefused) log.error({}, "the gateway refuses the key of this proxy; check FAREBOX_GATEWAY_API_KEY");
      else log.info({}, "the gateway accepts the key of this proxy again");
    },
  };
}

/** Logs an event of the ledger. docs/troubleshooting.md explains what to do about each event. */
export function logStoreEvent(event: StoreEvent, path: string, log: Log): void {
  switch (event.kind) {
    case "unwritable":
      log.error(
        { database: path, reason: event.reason },
        "the ledger cannot be written; until it can be, nothing is forwarded and settlements wait",
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
        "the ledger file is no longer at its path; stop serve, put the file or this copy back, and start serve again",
      );
      return;
    case "not_copied":
      log.error(
        { database: path, pid: process.pid, reason: event.reason },
        "the ledger file is no longer at its path and could not be copied; it is lost when this process ends",
      );
  }
}
