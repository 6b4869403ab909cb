import { Counter, Gauge, type Registry } from "prom-client";

/** Counts reloads of the price files. */
export interface PriceReloads {
  /** `at`: milliseconds since 1970 UTC. */
  ok(at: number): void;
  refused(): void;
}

/** Named after Prometheus' own metrics of its configuration. The prices of the start count as a success. */
export function priceReloads(registers: Registry[], loadedAt: number): PriceReloads {
  const reloads = new Counter({
    name: "farebox_price_reloads_total",
    help: "Reads of changed price files, by result.",
    labelNames: ["result"],
    registers,
  });
  const successful = new Gauge({
    name: "farebox_price_last_reload_successful",
    help: "1 unless the price files that were read last were refused.",
    registers,
  });
  const succeeded = new Gauge({
    name: "farebox_price_last_reload_success_timestamp_seconds",
    help: "Time at which the prices in force were read, in seconds since 1970.",
    registers,
  });
  for (const result of ["ok", "refused"]) reloads.labels(result).inc(0);
  successful.set(1);
  succeeded.set(loadedAt / 1000);
  return {
    ok(at) {
      reloads.labels("ok").inc();
      successful.set(1);
      succeeded.set(at / 1000);
    },
    refused() {
      reloads.labels("refused").inc();
      successful.set(0);
    },
  };
}
