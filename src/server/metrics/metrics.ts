import { Registry } from "prom-client";
import type { Clock } from "../../ports/clock.ts";
import type { Events } from "../../ports/events.ts";
import { accountGauges } from "./account-gauges.ts";
import { chargeMetrics, taskMetrics, requestMetrics } from "./request-metrics.ts";
import {
  fleetGauges,
  outboxCounts,
  priceReloads,
  type FleetGauges,
  type OutboxCounts,
  type PriceReloads,
} from "./job-metrics.ts";
import { gauge } from "./gauges.ts";
import { genAiMetrics } from "./genai-metrics.ts";
import { ledgerGauges, type LedgerFigures } from "./ledger-gauges.ts";
import {
  createProcessMetrics,
  familiesByProcess,
  familiesOf,
  readRegistry,
  type ProcessMetric,
} from "./process-metrics.ts";
import { escaped, KeyNames, type Family, type Format } from "./series.ts";

export interface Metrics {
  /** Handlers of the events that metrics count. */
  readonly listeners: readonly [
    requests: EventsOf<typeof requestMetrics>,
    charges: EventsOf<typeof chargeMetrics>,
    tasks: EventsOf<typeof taskMetrics>,
    genAi: Partial<EventsOf<typeof genAiMetrics>>,
    account: Pick<Events, "accountRead">,
  ];
  /** Handler of the ledger's writes, which begin before the proxy combines its listeners. */
  readonly ledgerWrote: Events["ledgerWrote"];
  readonly priceReloads: PriceReloads;
  readonly outbox: OutboxCounts;
  readonly fleet: FleetGauges;
  /** Subtracts the requests and streams that ended with their worker process from the active ones. */
  readonly lost: (requests: number, streams: number) => void;
  /** Adds the ledger's figures to each page, except while `read` returns null. */
  showLedger(read: () => Promise<LedgerFigures | null>): void;
  /**
   * Adds the metrics of worker processes to each page; null if there are no workers. `scrape` reads these metrics
   * first, because a worker sends all its events before its metrics.
   */
  showWorkers(read: (() => Promise<WorkerProcesses>) | null): void;
  /** Returns a page of all metrics, with current gauges of the ledger. Only OpenMetrics has exemplars (request ids). */
  scrape(format: Format): Promise<{ readonly contentType: string; readonly text: string }>;
}

type EventsOf<Create extends (...given: never) => { readonly events: unknown }> = ReturnType<Create>["events"];

/** Metrics of each worker process, by the worker's number. */
type WorkerProcesses = ReadonlyMap<string, readonly ProcessMetric[]>;

interface MetricsOptions {
  readonly version: string;
  /** Largest number of keys that metrics show by name. */
  readonly keysMax: number;
  /** Largest number of users and tag values that metrics show by name; 0 to omit budgets by user or tag. */
  readonly subjectsMax: number;
  /** True to show OpenTelemetry's metrics for generative AI in addition to Farebox's own. */
  readonly otel: boolean;
  readonly clock: Clock;
  /** Time when the prices in force at the start were read, in milliseconds since 1970 UTC. */
  readonly pricesLoadedAt: number;
}

export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  const ownProcess = createProcessMetrics();
  let readLedger = async (): Promise<LedgerFigures | null> => null;
  let readWorkers: (() => Promise<WorkerProcesses>) | null = null;
  const buildInfo = gauge(registry, "farebox_build_info", "Always 1; the label names the running release.", {
    labels: ["version"],
  });
  buildInfo.labels(options.version).set(1);
  const names = new KeyNames(options.keysMax, options.subjectsMax);
  // OpenTelemetry's metrics make the page long, so the other metrics then have fewer exemplars.
  const requests = requestMetrics(registry, { clock: options.clock, exemplars: options.otel ? "duration" : "all" });
  const charges = chargeMetrics(names);
  const tasks = taskMetrics();
  const genAi = options.otel ? genAiMetrics() : null;
  return {
    listeners: [
      requests.events,
      charges.events,
      tasks.events,
      genAi?.events ?? {},
      { accountRead: accountGauges(registry, options.clock) },
    ],
    ledgerWrote: requests.events.ledgerWrote,
    priceReloads: priceReloads(registry, options.pricesLoadedAt),
    outbox: outboxCounts(registry),
    fleet: fleetGauges(registry),
    lost: requests.lost,
    showLedger: (read) => (readLedger = read),
    showWorkers: (read) => (readWorkers = read),
    async scrape(format) {
      const workers = readWorkers === null ? null : await readWorkers();
      // Another thread queries the ledger while this one writes the other metrics.
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

const contentTypes: Readonly<Record<Format, string>> = {
  prometheus: "text/plain; version=0.0.4; charset=utf-8",
  openmetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/**
 * Number of characters written in one turn of the event loop. Writing them takes well below a millisecond, so streams
 * do not wait.
 */
const sliceChars = 65_536;

/**
 * Writes a page in slices. prom-client's own writer writes a page in one turn of the event loop. It also cannot write
 * both formats, because its first OpenMetrics page permanently renames its counters.
 */
class PageWriter {
  readonly #format: Format;
  readonly #slices: string[] = [];
  #slice = "";

  constructor(format: Format) {
    this.#format = format;
  }

  async add(family: Family): Promise<void> {
    this.#slice += headOf(family, this.#format);
    for (const lines of family.lines(this.#format)) {
      this.#slice += lines;
      if (this.#slice.length < sliceChars) continue;
      this.#slices.push(this.#slice);
      this.#slice = "";
      await nextTurn();
    }
  }

  /** Returns the whole page. Nothing may be added afterwards. */
  text(): string {
    const end = this.#format === "openmetrics" ? "# EOF\n" : "";
    return `${this.#slices.join("")}${this.#slice}${end}`;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function headOf({ name, help, type }: Family, format: Format): string {
  const isOpenMetrics = format === "openmetrics";
  const family = isOpenMetrics && type === "counter" ? name.replace(/_total$/, "") : name;
  const text = isOpenMetrics ? escaped(help) : help.replace(/\\/g, "\\\\").replace(/\n/g, "\\n");
  return `# HELP ${family} ${text}\n# TYPE ${family} ${type}\n`;
}
