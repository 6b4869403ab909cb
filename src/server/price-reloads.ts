import type { Reload } from "../catalogue/watched-prices.ts";
import type { PriceReloads } from "./metrics/price-reloads.ts";
import type { Log } from "../ports/log.ts";

/** Most faults that one refusal logs: `farebox prices check` lists all. */
const faultsLoggedMax = 20;

/** Logs and counts the result of reading the price files again. */
export function logReload(
  reload: Reload,
  to: { readonly log: Log; readonly count: PriceReloads; readonly at: number },
): void {
  const { log, count, at } = to;
  if (reload.kind === "taken") {
    count.ok(at);
    const { digest } = reload.catalogue;
    log.info(
      { before: reload.before, digest, models: reload.catalogue.list(at).length },
      reload.before === digest ? "prices read again, none has changed" : "prices taken over",
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
