import { Gauge, type Registry } from "prom-client";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";

/** Absent rather than 0 while the balance is unknown. */
export function balanceGauges(registry: Registry, clock: Clock): Events["balanceRead"] {
  let fetchedAt = 0;
  const up = new Gauge({ name: "farebox_balance_up", help: "Whether the last reading of the gateway's account worked: 1, or 0.", registers: [] });
  const usd = new Gauge({ name: "farebox_balance_usd", help: "The gateway's balance, in USD, as last read.", registers: [] });
  const age = new Gauge({
    name: "farebox_balance_age_seconds",
    help: "Age of the last reading of the gateway's account that worked, in seconds.",
    registers: [],
    collect() { this.set(Math.max(0, (clock.now() - fetchedAt) / 1000)); },
  });
  return (reading) => {
    registry.registerMetric(up);
    up.set(reading === null ? 0 : 1);
    if (reading === null) return;
    fetchedAt = reading.fetchedAt;
    registry.registerMetric(age);
    if (reading.usd === null) return registry.removeSingleMetric("farebox_balance_usd");
    registry.registerMetric(usd);
    usd.set(reading.usd);
  };
}
