import { Gauge, Registry } from "prom-client";
import type { Clock } from "../../ports/clock.ts";
import type { Events } from "../../ports/events.ts";
import { accountGauges } from "./account-gauges.ts";
import { chargeMetrics } from "./charge-metrics.ts";
import type { Format } from "./family.ts";
import { fleetGauges, type FleetGauges } from "./fleet-gauges.ts";
import { genAiMetrics } from "./genai-metrics.ts";
import { KeyNames } from "./key-names.ts";
import { ledgerGauges, type LedgerFigures } from "./ledger-gauges.ts";
import { outboxCounts, type OutboxCounts } from "./outbox.ts";
import { contentTypes, PageWriter } from "./page.ts";
import {
  createProcessMetrics,
  familiesByProcess,
  familiesOf,
  readRegistry,
  type ProcessMetric,
} from "./process-metrics.ts";
import { priceReloads, type PriceReloads } from "./price-reloads.ts";
import { requestMetrics } from "./request-metrics.ts";
import { taskMetrics } from "./task-metrics.ts";

export interface Metrics {
  readonly events: Events;
  readonly priceReloads: PriceReloads;
  readonly outbox: OutboxCounts;
  readonly fleet: FleetGauges;
  /** Counts requests and streams that ended with their process. */
  readonly lost: (requests: number, streams: number) => void;
  /** Has each page show these figures of the ledger; not while `read` returns null. */
  showLedger(read: () => Promise<LedgerFigures | null>): void;
  /** Has each page show the processes of workers too. They are asked first: their answers follow all their events. */
  showWorkers(read: (() => Promise<WorkerProcesses>) | null): void;
  /** Returns the page of all metrics, with present gauges of the ledger. OpenMetrics has exemplars with request ids. */
  scrape(format: Format): Promise<{ readonly contentType: string; readonly text: string }>;
}

/** The metrics of each worker's process, by its number. */
type WorkerProcesses = ReadonlyMap<string, readonly ProcessMetric[]>;

interface MetricsOptions {
  readonly version: string;
  /** Keys that have a name of their own. */
  readonly keysMax: number;
  /** True to show OpenTelemetry's names of generative AI in addition to ours. */
  readonly otel: boolean;
  readonly clock: Clock;
  /** Time when the prices in force at the start were read, in milliseconds since 1970 UTC. */
  readonly pricesLoadedAt: number;
}

export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  const registers = [registry];
  const ownProcess = createProcessMetrics();
  let readLedger = async (): Promise<LedgerFigures | null> => null;
  let readWorkers: (() => Promise<WorkerProcesses>) | null = null;
  const build = new Gauge({
    name: "farebox_build_info",
    help: "Always 1; the label says which release runs.",
    labelNames: ["version"],
    registers,
  });
  build.labels(options.version).set(1);
  const names = new KeyNames(options.keysMax);
  // With OpenTelemetry's names the page is long, so it has fewer exemplars.
  const requests = requestMetrics(registers, { clock: options.clock, exemplars: options.otel ? "duration" : "all" });
  const charges = chargeMetrics(names);
  const tasks = taskMetrics();
  const genAi = options.otel ? genAiMetrics() : null;
  return {
    events: {
      ...requests.events,
      ...charges.events,
      ...tasks.events,
      admitted(admission) {
        requests.events.admitted(admission);
        charges.events.admitted(admission);
      },
      requestEnded(event) {
        requests.events.requestEnded(event);
        genAi?.events.requestEnded(event);
      },
      posted(event) {
        charges.events.posted(event);
        genAi?.events.posted(event);
      },
      accountRead: accountGauges(registry, options.clock),
    },
    priceReloads: priceReloads(registers, options.pricesLoadedAt),
    outbox: outboxCounts(registers),
    fleet: fleetGauges(registers),
    lost: requests.lost,
    showLedger: (read) => (readLedger = read),
    showWorkers: (read) => (readWorkers = read),
    async scrape(format) {
      const workers = readWorkers === null ? null : await readWorkers();
      // The ledger is asked by another thread while the rest is written.
      const [figures, page] = await Promise.all([readLedger(), writePage(format, workers)]);
      if (figures !== null) for (const family of ledgerGauges(figures, names)) await page.add(family);
      return { contentType: contentTypes[format], text: page.text() };
    },
  };

  async function writePage(format: Format, workers: WorkerProcesses | null): Promise<PageWriter> {
    const page = new PageWriter(format);
    for (const family of [...requests.families, ...charges.families, ...tasks.families, ...(genAi?.families ?? [])])
      await page.add(family);
    const own = await ownProcess.read();
    const processes = workers === null ? familiesOf(own) : familiesByProcess(new Map([["primary", own], ...workers]));
    for (const family of [...familiesOf(await readRegistry(registry)), ...processes]) await page.add(family);
    return page;
  }
}
