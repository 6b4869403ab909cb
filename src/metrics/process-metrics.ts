import { collectDefaultMetrics, Registry, type MetricObjectWithValues, type MetricValue } from "prom-client";
import { numberText, seriesName, type Family } from "./family.ts";
import { labelText } from "./labels.ts";

/** One of prom-client's metrics with its values: data that can be sent between processes. */
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

/** What prom-client reads of a process: its CPU, memory, event loop, collections of garbage. */
export interface ProcessMetrics {
  read(): Promise<readonly ProcessMetric[]>;
}

/** Gauges that prom-client names like counters; their detailed kin stay. */
const misnamedDefaults = [
  "nodejs_active_handles_total",
  "nodejs_active_requests_total",
  "nodejs_active_resources_total",
];

/** Of this process. */
export function createProcessMetrics(): ProcessMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  for (const misnamed of misnamedDefaults) registry.removeSingleMetric(misnamed);
  return { read: () => readRegistry(registry) };
}

/** What prom-client keeps. */
export async function readRegistry(registry: Registry): Promise<readonly ProcessMetric[]> {
  return (await registry.getMetricsAsJSON()).map((metric) => {
    const { name, help, type, values } = metric as MetricObjectWithValues<
      MetricValue<string> & { readonly metricName?: string }
    >;
    return {
      name,
      help,
      // Its enumeration is a number in its types and a text in what it gives.
      type: type as unknown as Family["type"],
      values: values.map(({ metricName = name, labels, value }) => ({
        name: metricName,
        labels: known(labels),
        value,
      })),
    };
  });
}

function known(labels: Partial<Record<string, string | number>>): Record<string, string | number> {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, value ?? ""]));
}

/** As they are written on a page. */
export function familiesOf(metrics: readonly ProcessMetric[]): readonly Family[] {
  return metrics.map((metric) => ({ ...metric, lines: () => linesOf(metric, {}) }));
}

/**
 * The same metrics of several processes, each named by a label: the memory of all is their sum, and of their event loops the
 * worst one counts, so no one figure stands for all. What a process that died had counted ends with it, as a counter that
 * begins anew.
 */
export function familiesByProcess(processes: ReadonlyMap<string, readonly ProcessMetric[]>): readonly Family[] {
  const byName = new Map<
    string,
    { readonly metric: ProcessMetric; readonly of: (readonly [worker: string, metric: ProcessMetric])[] }
  >();
  for (const [worker, metrics] of processes) {
    for (const metric of metrics) {
      const known = byName.get(metric.name) ?? { metric, of: [] };
      byName.set(metric.name, known);
      known.of.push([worker, metric]);
    }
  }
  return [...byName.values()].map(({ metric, of }) => ({
    ...metric,
    *lines() {
      for (const [worker, each] of of) yield* linesOf(each, { worker });
    },
  }));
}

function* linesOf({ values }: ProcessMetric, more: Readonly<Record<string, string>>): Iterable<string> {
  for (const { name, labels, value } of values) {
    const all = { ...labels, ...more };
    yield `${seriesName(name, labelText(Object.keys(all), Object.values(all)))} ${numberText(value)}\n`;
  }
}
