import { Counter, Gauge, type Registry } from "prom-client";

interface GaugeOptions {
  readonly labels?: readonly string[];
  /** Sets the gauge's values at each scrape. */
  readonly read?: (gauge: Gauge) => void;
}

/** Creates a prom-client gauge. Without a registry, no page shows the gauge until it is registered. */
export function gauge(
  registry: Registry | null,
  name: string,
  help: string,
  { labels: labelNames = [], read }: GaugeOptions = {},
): Gauge {
  const made: Gauge = new Gauge({
    name,
    help,
    labelNames,
    registers: registry === null ? [] : [registry],
    ...(read && { collect: () => read(made) }),
  });
  return made;
}

/** Creates a prom-client counter, for events that are rare. */
export function counter(registry: Registry, name: string, help: string, labelNames: readonly string[]): Counter {
  return new Counter({ name, help, labelNames, registers: [registry] });
}
