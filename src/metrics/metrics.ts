import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import { sources } from "../core/charge.ts";
import { tokenClasses } from "../core/tokens.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import { BoundedLabel, other, SeriesCache } from "./labels.ts";
import { ledgerGauges, type LedgerFigures } from "./ledger-gauges.ts";
import { outboxCounts, type OutboxCounts } from "./outbox.ts";
import { priceReloads, type PriceReloads } from "./price-reloads.ts";
import { Tallies } from "./tallies.ts";

export interface Metrics {
  readonly events: Events;
  readonly priceReloads: PriceReloads;
  readonly outbox: OutboxCounts;
  /** The text exposition of everything, with the ledger's gauges as of now. */
  scrape(): Promise<{ readonly contentType: string; readonly text: string }>;
}

export interface MetricsOptions {
  readonly version: string;
  /** Keys that have a name of their own. */
  readonly keysMax: number;
  readonly clock: Clock;
  /** When the prices in force at the start were read, milliseconds since 1970 UTC. */
  readonly pricesLoadedAt: number;
  /** The figures of the ledger, asked for at each scrape. */
  readonly figures: () => Promise<LedgerFigures>;
}

/** 0.01 s doubling to beyond 600 s: from a cached answer to the longest of models. */
const secondsBuckets = Array.from({ length: 17 }, (_, step) => 0.01 * 2 ** step);
const overheadBuckets = Array.from({ length: 14 }, (_, step) => 0.0001 * 2 ** step);
const writeBuckets = Array.from({ length: 16 }, (_, step) => 0.00005 * 2 ** step);

/** Gauges that prom-client names like counters; their detailed kin stay. */
const misnamedDefaults = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/** Catalogue ids are bounded by the price files; this only guards against a mistake. */
const modelsMax = 2_000;

export function createMetrics(options: MetricsOptions): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  for (const misnamed of misnamedDefaults) registry.removeSingleMetric(misnamed);
  const build = new Gauge({ name: "farebox_build_info", help: "Always 1; the label says which release runs.", labelNames: ["version"], registers });
  build.labels(options.version).set(1);
  const gauges = ledgerGauges(registers);
  const outbox = outboxCounts(registers);
  const balance = balanceGauges(registry, options.clock);
  const tallies = new Tallies();
  return {
    events: {
      ...requestEvents(registers, tallies),
      ...chargeEvents(registers, tallies, options.keysMax),
      balanceRead: balance.read,
    },
    priceReloads: priceReloads(registers, options.pricesLoadedAt),
    outbox,
    async scrape() {
      tallies.flush();
      const figures = await options.figures();
      gauges.set(figures);
      outbox.setWaiting(figures.outboxWaiting);
      balance.refresh();
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}

type RequestEvents = Pick<Events, "requestStarted" | "requestEnded" | "refused" | "adminFailed" | "ledgerWrote">;

function requestEvents(registers: Registry[], tallies: Tallies): RequestEvents {
  const requests = new Counter({
    name: "farebox_requests_total",
    help: "Requests answered, by route, model and the status that the client got.",
    labelNames: ["route", "model", "status", "stream"],
    registers,
  });
  const seconds = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, labelNames: ["route", "model"], buckets, registers });
  const duration = seconds("farebox_request_duration_seconds", "From a request's arrival to the end of its answer.", secondsBuckets);
  const firstToken = seconds("farebox_time_to_first_token_seconds", "From a request's arrival to the first byte of its answer's body.", secondsBuckets);
  const overhead = seconds("farebox_overhead_seconds", "From a request's arrival to its sending to the gateway: what Farebox itself took.", overheadBuckets);
  const refusals = new Counter({ name: "farebox_refusals_total", help: "Requests that Farebox itself refused, by error code.", labelNames: ["code"], registers });
  const adminFailures = new Counter({ name: "farebox_admin_failures_total", help: "Tries to use the admin API without a token that opens it, by what was wrong.", labelNames: ["reason"], registers });
  const running = { requests: 0, streams: 0 };
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({ name, help, registers, collect() { this.set(read()); } });
  gauge("farebox_active_requests", "Requests being answered now.", () => running.requests);
  gauge("farebox_active_streams", "Streams passing now.", () => running.streams);
  const writes = new Histogram({ name: "farebox_ledger_write_seconds", help: "Length of one ledger transaction, which may carry many calls.", buckets: writeBuckets, registers });

  const models = new BoundedLabel(modelsMax);
  const counted = new SeriesCache((route = "", model = "", status = "", stream = "") =>
    tallies.count(requests.labels(route, model, status, stream)),
  );
  const timed = new SeriesCache((route = "", model = "") => ({
    duration: duration.labels(route, model),
    firstToken: firstToken.labels(route, model),
    overhead: overhead.labels(route, model),
  }));
  return {
    requestStarted(kind) {
      if (kind === "stream") running.streams++;
      else running.requests++;
    },
    requestEnded(event) {
      running.requests--;
      if (event.stream) running.streams--;
      const model = event.model === null ? "" : models.of(event.model);
      counted.of(event.route, model, String(event.status), String(event.stream)).add(1);
      const series = timed.of(event.route, model);
      series.duration.observe(event.durationMs / 1000);
      if (event.firstTokenMs !== null) series.firstToken.observe(event.firstTokenMs / 1000);
      if (event.overheadMs !== null) series.overhead.observe(event.overheadMs / 1000);
    },
    refused: ({ code }) => refusals.labels(code).inc(),
    adminFailed: (why) => adminFailures.labels(why).inc(),
    ledgerWrote: (length) => writes.observe(length),
  };
}

type ChargeEvents = Pick<Events, "admitted" | "posted">;

function chargeEvents(registers: Registry[], tallies: Tallies, keysMax: number): ChargeEvents {
  const byModel = ["model", "group", "source"];
  const cost = new Counter({ name: "farebox_cost_usd_total", help: "What the gateway charged, in USD. Exact sums are in the ledger.", labelNames: byModel, registers });
  const list = new Counter({ name: "farebox_list_cost_usd_total", help: "The same tokens at the official list price, in USD.", labelNames: byModel, registers });
  const tokens = new Counter({ name: "farebox_tokens_total", help: "Tokens charged for, by disjoint class.", labelNames: ["model", "class", "source"], registers });
  const keyRequests = new Counter({ name: "farebox_key_requests_total", help: "Charges posted, by key.", labelNames: ["key", "team"], registers });
  const keyCost = new Counter({ name: "farebox_key_cost_usd_total", help: "What the gateway charged, in USD, by key.", labelNames: ["key", "team"], registers });
  const keyTokens = new Counter({ name: "farebox_key_tokens_total", help: "Tokens charged for, by key and class.", labelNames: ["key", "team", "class"], registers });
  const retries = new Counter({ name: "farebox_client_retries_total", help: "Requests that a client's SDK sent again, by model.", labelNames: ["model"], registers });
  const overage = new Counter({ name: "farebox_overage_usd_total", help: "What was posted beyond its hold, in USD.", registers });

  const models = new BoundedLabel(modelsMax);
  const keys = new BoundedLabel(keysMax);
  const modelSeries = new SeriesCache((model = "", group = "", source = "") => ({
    cost: tallies.money(cost.labels(model, group, source)),
    list: tallies.money(list.labels(model, group, source)),
    tokens: new SeriesCache((name = "") => tallies.count(tokens.labels(model, name, source))),
  }));
  const keySeries = new SeriesCache((key = "", team = "") => ({
    requests: tallies.count(keyRequests.labels(key, team)),
    cost: tallies.money(keyCost.labels(key, team)),
    tokens: new SeriesCache((name = "") => tallies.count(keyTokens.labels(key, team, name))),
  }));
  const retrySeries = new SeriesCache((model = "") => tallies.count(retries.labels(model)));
  const overages = tallies.money(overage);
  const started = new Set<string>();
  const modelLabel = (model: string | null) => (model === null ? other : models.of(model));
  const keyLabels = (key: { name: string; team: string | null } | null) => {
    const name = key === null ? "" : keys.of(key.name);
    return [name, name === other ? "" : (key?.team ?? "")] as const;
  };

  return {
    admitted(key, model, group, retry) {
      if (retry > 0) retrySeries.of(modelLabel(model)).add(1);
      const seen = `${key?.name ?? ""}\n${model ?? ""}`;
      if (started.has(seen) || started.size > 100_000) return;
      started.add(seen);
      // To be looked up is enough: a series starts at 0 when it is made.
      const ofKey = keySeries.of(...keyLabels(key));
      for (const name of ["input", "output"]) ofKey.tokens.of(name);
      retrySeries.of(modelLabel(model));
      for (const source of sources) modelSeries.of(modelLabel(model), group ?? "", source);
    },
    posted(event) {
      const model = modelLabel(event.model);
      const series = modelSeries.of(model, event.group ?? "", event.source);
      const ofKey = keySeries.of(...keyLabels(event.key));
      ofKey.requests.add(1);
      if (event.cost !== null) {
        series.cost.add(event.cost);
        ofKey.cost.add(event.cost);
      }
      if (event.listCost !== null) series.list.add(event.listCost);
      overages.add(event.overage);
      for (const name of tokenClasses) {
        const count = event.tokens[name];
        if (count === 0) continue;
        series.tokens.of(name).add(count);
        ofKey.tokens.of(name).add(count);
      }
    },
  };
}

/** Absent rather than 0 while the balance is unknown. */
function balanceGauges(registry: Registry, clock: Clock): { read: Events["balanceRead"]; refresh(): void } {
  const up = new Gauge({ name: "farebox_balance_up", help: "Whether the last reading of the gateway's account worked.", registers: [] });
  const usd = new Gauge({ name: "farebox_balance_usd", help: "The gateway's balance in USD, as last read.", registers: [] });
  const age = new Gauge({ name: "farebox_balance_age_seconds", help: "Age of that reading.", registers: [] });
  let fetchedAt: number | null = null;
  const show = (gauge: Gauge) => {
    if (registry.getSingleMetric((gauge as unknown as { name: string }).name) === undefined) registry.registerMetric(gauge);
  };
  return {
    read(reading) {
      show(up);
      up.set(reading === null ? 0 : 1);
      if (reading === null) return;
      fetchedAt = reading.fetchedAt;
      show(age);
      if (reading.usd === null) return registry.removeSingleMetric("farebox_balance_usd");
      show(usd);
      usd.set(reading.usd);
    },
    refresh() {
      if (fetchedAt !== null) age.set(Math.max(0, (clock.now() - fetchedAt) / 1000));
    },
  };
}
