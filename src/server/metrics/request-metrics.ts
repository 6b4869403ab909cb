import { Gauge, type Registry } from "prom-client";
import { adminFailures } from "../../core/keys.ts";
import { refusalCodes } from "../../core/refusals.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Events } from "../../ports/events.ts";
import { counts } from "./counters.ts";
import type { Family } from "./family.ts";
import { HistogramFamily } from "./histograms.ts";
import { BoundedLabel, other } from "./labels.ts";
import { fieldsMax, modelsMax } from "./limits.ts";

/** 0.01 s doubling to beyond 600 s: from a cached answer to the longest of models. */
const secondsBuckets = doubling(0.01, 17);
/** 0.1 ms doubling to 0.8 s: Farebox itself normally takes a few milliseconds. */
const overheadBuckets = doubling(0.0001, 14);
/** 0.05 ms doubling to 1.6 s: a transaction in memory, on a good disk, on a bad one. */
const writeBuckets = doubling(0.00005, 16);

/** Clients choose these names: only short plain ones are shown. */
const plainName = /^[\w .:[\]-]{1,64}$/;

/** Different statuses of responses that are counted separately; no gateway has more. */
const statusesMax = 100;

type HandledEvents = Pick<
  Events,
  | "requestStarted"
  | "requestEnded"
  | "refused"
  | "unknownFields"
  | "streamBurst"
  | "adminFailed"
  | "ledgerWrote"
  | "admitted"
>;

/**
 * Counts requests, their results and durations. `exemplars`: all durations name their requests, or only that of the whole
 * request.
 */
export function requestMetrics(
  registers: Registry[],
  { clock, exemplars }: { readonly clock: Clock; readonly exemplars: "all" | "duration" },
): {
  readonly events: HandledEvents;
  readonly lost: (requests: number, streams: number) => void;
  readonly families: readonly Family[];
} {
  const requests = counts({
    name: "farebox_requests_total",
    help: "Requests answered, by route, model and the status that the client got.",
    labels: ["route", "model", "status", "stream"],
  });
  const seconds = (name: string, help: string, bounds: readonly number[]) =>
    new HistogramFamily({ name, help, labels: ["route", "model"], bounds });
  const duration = seconds(
    "farebox_request_duration_seconds",
    "From a request's arrival to the end of its answer, in seconds.",
    secondsBuckets,
  );
  const firstToken = seconds(
    "farebox_time_to_first_token_seconds",
    "From a request's arrival to the first byte of its answer's body, in seconds.",
    secondsBuckets,
  );
  const overhead = seconds(
    "farebox_overhead_seconds",
    "From a request's arrival to its sending to the gateway, in seconds: what Farebox itself took.",
    overheadBuckets,
  );
  const refusals = counts({
    name: "farebox_refusals_total",
    help: "Requests that Farebox itself refused, and streams that it ended for their hold, by error code.",
    labels: ["code"],
  });
  const adminTries = counts({
    name: "farebox_admin_failures_total",
    help: "Tries to use the admin API without a valid token, by reason.",
    labels: ["reason"],
  });
  // Asking for a series is enough: it starts at 0.
  for (const reason of adminFailures) adminTries.of(reason);
  for (const code of refusalCodes) refusals.of(code);
  const unknownFields = counts({
    name: "farebox_unknown_fields_total",
    help: "Fields, headers and query parameters of requests that Farebox does not know, by route and name.",
    labels: ["route", "field"],
  });
  const bursts = counts({
    name: "farebox_stream_bursts_total",
    help: "Streams that came at once instead of as they were generated, so that their model was marked, by model.",
    labels: ["model"],
  });
  const fieldNames = new BoundedLabel(fieldsMax);
  const writes = new HistogramFamily({
    name: "farebox_ledger_write_seconds",
    help: "Length of one ledger transaction, which may carry many calls, in seconds.",
    labels: [],
    bounds: writeBuckets,
  });
  const writeLengths = writes.of();
  const running = { requests: 0, streams: 0 };
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  gauge("farebox_active_requests", "Requests being answered now.", () => running.requests);
  gauge("farebox_active_streams", "Streams passing now.", () => running.streams);

  const models = new BoundedLabel(modelsMax);
  const statuses = new BoundedLabel(statusesMax);
  /** Routes and models whose series exist. */
  const begun = new Set<string>();
  const modelLabel = (model: string | null) => (model === null ? "" : models.of(model));
  return {
    families: [requests, duration, firstToken, overhead, refusals, adminTries, unknownFields, bursts, writes],
    lost(requests, streams) {
      running.requests -= requests;
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
        if (begun.has(series)) return;
        begun.add(series);
        for (const stream of ["false", "true"]) requests.of(route, label, statuses.of("200"), stream);
        for (const family of [duration, firstToken, overhead]) family.of(route, label);
        bursts.of(label);
      },
      requestEnded(event) {
        running.requests--;
        if (event.stream) running.streams--;
        const model = modelLabel(event.model);
        const from = { requestId: event.id, at: clock.now() };
        requests.of(event.route, model, statuses.of(String(event.status)), String(event.stream)).add(1);
        duration.of(event.route, model).observe(event.durationMs / 1000, from);
        const fromPart = exemplars === "all" ? from : undefined;
        if (event.firstTokenMs !== null) firstToken.of(event.route, model).observe(event.firstTokenMs / 1000, fromPart);
        if (event.overheadMs !== null) overhead.of(event.route, model).observe(event.overheadMs / 1000, fromPart);
      },
      refused: ({ code }) => refusals.of(code).add(1),
      unknownFields({ route, fields }) {
        for (const field of fields)
          unknownFields.of(route, plainName.test(field) ? fieldNames.of(field) : other).add(1);
      },
      streamBurst: ({ model }) => bursts.of(modelLabel(model)).add(1),
      adminFailed: (why) => adminTries.of(why).add(1),
      ledgerWrote: (length) => writeLengths.observe(length),
    },
  };
}

function doubling(from: number, steps: number): readonly number[] {
  return Array.from({ length: steps }, (_, step) => from * 2 ** step);
}
