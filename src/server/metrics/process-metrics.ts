import { collectDefaultMetrics, Registry, type MetricObjectWithValues, type MetricValue } from "prom-client";
import { type Family, labelText, numberText, seriesName } from "./series.ts";

/** Metric of prom-client with its values, as data that can be sent between processes. */
export interface ProcessMetric {
  readonly name: string;
  readonly help: string;
  readonly type: Family["type"];
  readonly values: readonly {
    readonly name: string;
    readonly labels: Readonly<Record<string, string | number>>;
    readonly value: number;
  }[];
}

/** Metrics that prom-client collects from a process: CPU, memory, event loop, garbage collection. */
interface ProcessMetrics {
  read(): Promise<readonly ProcessMetric[]>;
}

/** Gauges that are removed because prom-client names them like counters. Their detailed variants stay. */
const misnamedDefaults = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

/** Creates the metrics of this process. */
export function createProcessMetrics(): ProcessMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const misnamed of misnamedDefaults) registry.removeSingleMetric(misnamed);
  return { read: () => readRegistry(registry) };
}

/** Reads the metrics of a prom-client registry. */
export async function readRegistry(registry: Registry): Promise<readonly ProcessMetric[]> {
  return (await registry.getMetricsAsJSON()).map((metric) => {
    const { name, help, type, values } = metric as MetricObjectWithValues<
      MetricValue<string> & { readonly metricName?: string }
    >;
    return {
      name,
      help,
      // prom-client declares the type as a number but returns a text.
      type: type as unknown as Family["type"],
      values: values.map(({ metricName = name, labels, value }) => ({
        name: metricName,
        labels: withoutUndefined(labels),
        value,
      })),
    };
  });
}

function withoutUndefined(labels: Partial<Record<string, string | number>>): Record<string, string | number> {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, value ?? ""]));
}

/** Converts metrics to families of a page. */
export function familiesOf(metrics: readonly ProcessMetric[]): readonly Family[] {
  return metrics.map((metric) => ({ ...metric, lines: () => linesOf(metric, {}) }));
}

/**
 * Merges metrics of several processes. The label `worker` distinguishes the processes, so users can add up the memory and
 * see the slowest event loop. The counters of a process end with it; those of its replacement start at 0.
 */
export function familiesByProcess(processes: ReadonlyMap<string, readonly ProcessMetric[]>): readonly Family[] {
  const byName = new Map<
    string,
    { readonly metric: ProcessMetric; readonly byWorker: (readonly [worker: string, metric: ProcessMetric])[] }
  >();
  for (const [worker, metrics] of processes) {
    for (const metric of metrics) {
      const family = byName.get(metric.name) ?? { metric, byWorker: [] };
      byName.set(metric.name, family);
      family.byWorker.push([worker, metric]);
    }
  }
  return [...byName.values()].map(({ metric, byWorker }) => ({
    ...metric,
    *lines() {
      for (const [worker, each] of byWorker) yield* linesOf(each, { worker });
    },
  }));
}

function* linesOf({ values }: ProcessMetric, more: Readonly<Record<string, string>>): Iterable<string> {
  for (const { name, labels, value } of values) {
    const all = { ...labels, ...more };
    yield `${seriesName(name, labelText(Object.keys(all), Object.values(all)))} ${numberText(value)}\n`;
  }
}
