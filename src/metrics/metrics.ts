import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import { accountGauges } from "./account-gauges.ts";
import { chargeMetrics } from "./charge-metrics.ts";
import type { JobName } from "../ports/fleet.ts";
import type { Format } from "./family.ts";
import { fleetGauges, type FleetGauges } from "./fleet-gauges.ts";
import { genAiMetrics } from "./genai-metrics.ts";
import { KeyNames } from "./key-names.ts";
import { ledgerGauges, type LedgerFigures } from "./ledger-gauges.ts";
import { outboxCounts, type OutboxCounts } from "./outbox.ts";
import { contentTypes, familiesOf, PageWriter } from "./page.ts";
import { priceReloads, type PriceReloads } from "./price-reloads.ts";
import { requestMetrics } from "./request-metrics.ts";
import { taskMetrics } from "./task-metrics.ts";

export interface Metrics {
  readonly events: Events;
  readonly priceReloads: PriceReloads;
  readonly outbox: OutboxCounts;
  readonly fleet: FleetGauges;
  /** The page of everything, with the ledger's gauges as of now. OpenMetrics has exemplars with request ids. */
  scrape(format: Format): Promise<{ readonly contentType: string; readonly text: string }>;
}

export interface MetricsOptions {
  readonly version: string;
  /** Keys that have a name of their own. */
  readonly keysMax: number;
  /** Whether OpenTelemetry's names of generative AI are shown beside ours. */
  readonly otel: boolean;
  readonly clock: Clock;
  /** When the prices in force at the start were read, milliseconds since 1970 UTC. */
  readonly pricesLoadedAt: number;
  /** The figures of the ledger, asked for at each scrape. */
  readonly figures: () => Promise<LedgerFigures>;
  /** Whether this proxy does a job, asked at each scrape; every one unless given. */
  readonly does?: (job: JobName) => boolean;
}

/** Gauges that prom-client names like counters; their detailed kin stay. */
const misnamedDefaults = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  for (const misnamed of misnamedDefaults) registry.removeSingleMetric(misnamed);
  const build = new Gauge({ name: "farebox_build_info", help: "Always 1; the label says which release runs.", labelNames: ["version"], registers });
  build.labels(options.version).set(1);
  const names = new KeyNames(options.keysMax);
  // Two more names for the same durations make a long page: it has fewer exemplars then.
  const requests = requestMetrics(registers, { clock: options.clock, exemplars: options.otel ? "duration" : "all" });
  const charges = chargeMetrics(names);
  const tasks = taskMetrics();
  const genAi = options.otel ? genAiMetrics() : null;
  return {
    events: {
      ...requests.heard,
      ...charges.heard,
      ...tasks.heard,
      admitted(admission) {
        requests.heard.admitted(admission);
        charges.heard.admitted(admission);
      },
      requestEnded(event) {
        requests.heard.requestEnded(event);
        genAi?.heard.requestEnded(event);
      },
      posted(event) {
        charges.heard.posted(event);
        genAi?.heard.posted(event);
      },
      accountRead: accountGauges(registry, options.clock),
    },
    priceReloads: priceReloads(registers, options.pricesLoadedAt),
    outbox: outboxCounts(registers),
    fleet: fleetGauges(registers, options.does ?? (() => true)),
    async scrape(format) {
      // The ledger is asked by another thread while the rest is written.
      const [figures, page] = await Promise.all([options.figures(), writePage(format)]);
      for (const family of ledgerGauges(figures, names)) await page.add(family);
      return { contentType: contentTypes[format], text: page.text() };
    },
  };

  async function writePage(format: Format): Promise<PageWriter> {
    const page = new PageWriter(format);
    for (const family of [...requests.families, ...charges.families, ...tasks.families, ...(genAi?.families ?? [])]) await page.add(family);
    for await (const family of familiesOf(registry)) await page.add(family);
    return page;
  }
}
