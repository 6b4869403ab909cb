import type { Registry } from "prom-client";
import { adminFailures } from "../../core/keys.ts";
import { refusalCodes, isOfGateway } from "../../core/refusals.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Events, ChargedKey } from "../../ports/events.ts";
import { gauge } from "./gauges.ts";
import {
  BoundedLabel,
  counts,
  fieldsMax,
  HistogramFamily,
  modelsMax,
  other,
  amounts,
  groupsMax,
  SeriesCache,
  startedMax,
  type KeyNames,
  type Money,
} from "./series.ts";
import { sources } from "../../core/charge.ts";
import { doubts, tokenClasses, type Doubt, type TokenClass } from "../../core/usage.ts";
import { taskFailures } from "../../core/tasks.ts";

/** Bounds that double from 0.01 s to above 600 s: from a cached answer to the slowest models. */
const secondsBuckets = doubling(0.01, 17);
/** Bounds that double from 0.1 ms to 0.8 s. Farebox itself normally takes a few milliseconds. */
const overheadBuckets = doubling(0.0001, 14);
/** Bounds that double from 0.05 ms to 1.6 s: from a transaction in memory to one on a slow disk. */
const writeBuckets = doubling(0.00005, 16);

/** Pattern of the field names that metrics show. Clients choose the names, so only short plain names are accepted. */
const plainName = /^[\w .:[\]-]{1,64}$/;

/** Largest number of response statuses that are counted separately. No gateway uses more. */
const statusesMax = 100;

/** Returns the metrics of requests, in the order of the page. */
function requestFamilies() {
  const seconds = (name: string, help: string, bounds: readonly number[]) =>
    new HistogramFamily(name, help, ["route", "model"], bounds);
  return {
    requests: counts(
      "farebox_requests_total",
      "Requests answered, by route, model and the status that the client got.",
      ["route", "model", "status", "stream"],
    ),
    duration: seconds(
      "farebox_request_duration_seconds",
      "From a request's arrival to the end of its answer, in seconds.",
      secondsBuckets,
    ),
    firstToken: seconds(
      "farebox_time_to_first_token_seconds",
      "From a request's arrival to the first byte of its answer's body, in seconds.",
      secondsBuckets,
    ),
    overhead: seconds(
      "farebox_overhead_seconds",
      "From a request's arrival until it is sent to the gateway, in seconds: the time that Farebox itself took.",
      overheadBuckets,
    ),
    refusals: counts(
      "farebox_refusals_total",
      "Requests that Farebox itself refused, and streams that it ended because their hold covered no more output, by error code.",
      ["code"],
    ),
    adminFailures: counts(
      "farebox_admin_failures_total",
      "Attempts to use the admin API without a valid token, by reason.",
      ["reason"],
    ),
    unknownFields: counts(
      "farebox_unknown_fields_total",
      "Fields, headers and query parameters of requests that Farebox does not know, by route and name.",
      ["route", "field"],
    ),
    bursts: counts(
      "farebox_stream_bursts_total",
      "Streams that arrived all at once instead of while they were generated, by model. After such a stream, Farebox holds the whole cost of the model's streams for a while.",
      ["model"],
    ),
    spans: counts(
      "farebox_spans_total",
      "Request spans, by result: sent to the trace receiver, or lost because the receiver did not accept them.",
      ["result"],
    ),
    writes: new HistogramFamily(
      "farebox_ledger_write_seconds",
      "Duration of a ledger transaction, which may contain many commands, in seconds.",
      [],
      writeBuckets,
    ),
  };
}

/**
 * Counts requests, their results and durations. `exemplars` is "all" if all durations of a request have exemplars, or
 * "duration" if only its total duration has one.
 */
export function requestMetrics(
  registry: Registry,
  { clock, exemplars }: { readonly clock: Clock; readonly exemplars: "all" | "duration" },
) {
  const families = requestFamilies();
  const { requests, duration, firstToken, overhead, refusals, bursts } = families;
  // Getting a series creates it with the value 0.
  for (const reason of adminFailures) families.adminFailures.of(reason);
  for (const code of refusalCodes) refusals.of(code);
  const spanCounts = { sent: families.spans.of("sent"), lost: families.spans.of("lost") };
  const writeDurations = families.writes.of();
  const running = { requests: 0, streams: 0 };
  gauge(registry, "farebox_active_requests", "Requests being answered now.", {
    read: (active) => active.set(running.requests),
  });
  gauge(registry, "farebox_active_streams", "Streams being passed on now.", {
    read: (active) => active.set(running.streams),
  });

  const fieldNames = new BoundedLabel(fieldsMax);
  const models = new BoundedLabel(modelsMax);
  const statuses = new BoundedLabel(statusesMax);
  /** Routes and models whose series already exist. */
  const existing = new Set<string>();
  const modelLabel = (model: string | null) => (model === null ? "" : models.of(model));
  return {
    families: Object.values(families),
    /** Subtracts the requests and streams that ended with their worker process from the active ones. */
    lost(lostRequests: number, streams: number) {
      running.requests -= lostRequests;
      running.streams -= streams;
    },
    events: {
      requestStarted(kind) {
        if (kind === "stream") running.streams++;
        else running.requests++;
      },
      admitted({ route, model }) {
        const label = modelLabel(model ?? "other");
        const series = `${route}\n${label}`;
        if (existing.has(series)) return;
        existing.add(series);
        for (const stream of ["false", "true"]) requests.of(route, label, statuses.of("200"), stream);
        for (const family of [duration, firstToken, overhead]) family.of(route, label);
        bursts.of(label);
      },
      requestEnded(event) {
        running.requests--;
        if (event.stream) running.streams--;
        const model = modelLabel(event.model);
        const exemplar = { requestId: event.id, at: clock.now() };
        requests.of(event.route, model, statuses.of(String(event.status)), String(event.stream)).add(1);
        duration.of(event.route, model).observe(event.durationMs / 1000, exemplar);
        const exemplarOfPart = exemplars === "all" ? exemplar : undefined;
        if (event.firstTokenMs !== null)
          firstToken.of(event.route, model).observe(event.firstTokenMs / 1000, exemplarOfPart);
        if (event.overheadMs !== null) overhead.of(event.route, model).observe(event.overheadMs / 1000, exemplarOfPart);
      },
      refused: ({ refusal }) => refusals.of(refusal.code).add(1),
      unknownFields({ route, fields }) {
        for (const field of fields)
          families.unknownFields.of(route, plainName.test(field) ? fieldNames.of(field) : other).add(1);
      },
      streamBurst: ({ model }) => bursts.of(modelLabel(model)).add(1),
      adminFailed: (why) => families.adminFailures.of(why).add(1),
      spansSent: ({ spans: ended, lost }) => spanCounts[lost === null ? "sent" : "lost"].add(ended),
      ledgerWrote: (seconds) => writeDurations.observe(seconds),
    } satisfies Partial<Events>,
  };
}

function doubling(from: number, steps: number): readonly number[] {
  return Array.from({ length: steps }, (_, step) => from * 2 ** step);
}

/** Token classes that every chat model reports. The series of other classes start with their first token. */
const startedClasses: readonly TokenClass[] = ["input", "cached_input", "output", "reasoning"];

const byModel = ["model", "group", "source"];
const byKey = ["key", "team"];

/** Returns the metrics of charges, in the order of the page. */
function chargeFamilies() {
  return {
    cost: amounts("farebox_cost_usd_total", "Cost at the gateway, in USD.", byModel),
    list: amounts("farebox_list_cost_usd_total", "The same tokens at the official list price, in USD.", byModel),
    tokens: counts("farebox_tokens_total", "Tokens charged for, by disjoint class.", ["model", "class", "source"]),
    keyRequests: counts("farebox_key_requests_total", "Charges posted, by key.", byKey),
    keyCost: amounts("farebox_key_cost_usd_total", "Cost at the gateway, in USD, by key.", byKey),
    keyTokens: counts("farebox_key_tokens_total", "Tokens charged for, by key and disjoint class.", [
      ...byKey,
      "class",
    ]),
    keyRefusals: counts(
      "farebox_key_refusals_total",
      "Requests to the gateway that Farebox refused, by key and error code.",
      ["key", "code"],
    ),
    retries: counts("farebox_client_retries_total", "Requests that a client's SDK sent again, by model.", ["model"]),
    overage: amounts("farebox_overage_usd_total", "Posted amounts above their holds, in USD."),
    inDoubt: amounts(
      "farebox_cost_in_doubt_usd_total",
      "Cost of charges that the gateway may bill differently, in USD, by doubt. A charge counts under each of its doubts.",
      ["reason"],
    ),
  };
}

/** Counts charges by model and by key, and refusals by key. */
export function chargeMetrics(names: KeyNames) {
  const families = chargeFamilies();
  const { cost, list, tokens, retries } = families;
  const models = new BoundedLabel(modelsMax);
  const groups = new BoundedLabel(groupsMax);
  const modelSeries = new SeriesCache((model = "", group = "", source = "") => ({
    cost: cost.of(model, group, source),
    list: list.of(model, group, source),
    tokens: new SeriesCache((name = "") => tokens.of(model, name, source)),
  }));
  const keySeries = new SeriesCache((key = "", team = "") => ({
    requests: families.keyRequests.of(key, team),
    cost: families.keyCost.of(key, team),
    tokens: new SeriesCache((name = "") => families.keyTokens.of(key, team, name)),
  }));
  const overages = families.overage.of();
  const inDoubtOf = Object.fromEntries(doubts.map((doubt) => [doubt, families.inDoubt.of(doubt)])) as Record<
    Doubt,
    Money
  >;
  const modelLabel = (model: string | null) => (model === null ? other : models.of(model));
  const seriesOfModel = (model: string | null, group: string | null, source: string) =>
    modelSeries.of(modelLabel(model), group === null ? "" : groups.of(group), source);
  const seriesOfKey = (key: ChargedKey | null) => keySeries.of(...names.labelsOf(key));

  const started = new Set<string>();
  const start: Events["admitted"] = ({ key, model, group }) => {
    // Getting a series creates it with the value 0.
    const ofKey = seriesOfKey(key);
    retries.of(modelLabel(model));
    for (const name of startedClasses) ofKey.tokens.of(name);
    for (const source of sources) {
      const ofModel = seriesOfModel(model, group, source);
      for (const name of startedClasses) ofModel.tokens.of(name);
    }
  };
  return {
    families: Object.values(families),
    events: {
      admitted(admission) {
        const { key, model, retry } = admission;
        if (retry > 0) retries.of(modelLabel(model)).add(1);
        const seen = `${key?.name ?? ""}\n${key?.team ?? ""}\n${model ?? ""}`;
        if (started.has(seen) || started.size > startedMax) return;
        started.add(seen);
        start(admission);
      },
      refused({ refusal: { code }, request }) {
        if (request === null || isOfGateway(code)) return;
        const [key] = names.labelsOf(request.key);
        families.keyRefusals.of(key, code).add(1);
      },
      posted(event) {
        const ofModel = seriesOfModel(event.model, event.group, event.source);
        const ofKey = seriesOfKey(event.key);
        ofKey.requests.add(1);
        if (event.cost !== null) {
          ofModel.cost.add(event.cost);
          ofKey.cost.add(event.cost);
          for (const doubt of event.doubts) inDoubtOf[doubt].add(event.cost);
        }
        if (event.listCost !== null) ofModel.list.add(event.listCost);
        overages.add(event.overage);
        for (const name of tokenClasses) {
          const count = event.tokens[name];
          if (count === 0) continue;
          ofModel.tokens.of(name).add(count);
          ofKey.tokens.of(name).add(count);
        }
      },
    } satisfies Partial<Events>,
  };
}

/** Counts ended tasks by status, and failed tasks by reason. */
export function taskMetrics() {
  const tasks = counts("farebox_tasks_total", "Tasks that have ended, by model and final status.", ["model", "status"]);
  const failures = counts("farebox_task_failures_total", "Tasks that failed, by reason.", ["reason"]);
  // Getting a series creates it with the value 0.
  for (const reason of taskFailures) failures.of(reason);
  const models = new BoundedLabel(modelsMax);
  return {
    families: [tasks, failures],
    events: {
      taskEnded({ model, status, failure }) {
        tasks.of(model === null ? other : models.of(model), status).add(1);
        if (failure !== null) failures.of(failure).add(1);
      },
    } satisfies Partial<Events>,
  };
}
