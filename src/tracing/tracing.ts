import type { Clock } from "../ports/clock.ts";
import type { SpansSent } from "../ports/events.ts";
import type { RequestSpan, SpanFacts, Tracing } from "../ports/tracing.ts";
import { errorOf, firstAttributes, lastAttributes, spanName } from "./attributes.ts";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  detectResources,
  ExportResultCode,
  OTLPTraceExporter,
  ParentBasedSampler,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  ROOT_CONTEXT,
  serviceNameEnvDetector,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceIdRatioBasedSampler,
  TracerProvider,
  W3CTraceContextPropagator,
  type ReadableSpan,
  type Sampler,
  type Span,
  type SpanExporter,
  type SpanProcessor,
} from "./sdk.ts";

interface TracingOptions {
  /** Address to which spans are sent. */
  readonly address: string;
  readonly sampler: {
    readonly isParentBased: boolean;
    readonly root: "always_on" | "always_off" | "traceidratio";
    readonly ratio: number;
  };
  /** Address of the gateway. */
  readonly gateway: URL;
  /** Longest time to send one batch, and to wait for the receiver at the end of the process, in milliseconds. */
  readonly timeoutMs: number;
  readonly version: string;
  readonly clock: Clock;
  /** Reports spans that were sent or lost. */
  readonly onSent: (sent: SpansSent) => void;
}

export interface OtlpTracing extends Tracing {
  /** Sends the ended spans. Spans that the receiver does not accept in time are lost. */
  flush(): Promise<void>;
}

/** Largest number of ended spans that wait to be sent or are being sent. Further spans are lost. */
const waitingMax = 2048;
/** Time after which ended spans are sent, in milliseconds. */
const sendAfterMs = 2_000;
/** Largest length of an attribute's text, in characters. */
const textMax = 256;

/** Starts to record spans and to send them to an OTLP receiver. Requests never wait for the receiver. */
export function startTracing(options: TracingOptions): OtlpTracing {
  const { address, sampler, gateway, timeoutMs, version, clock, onSent } = options;
  const processor = new BoundedProcessor(new OTLPTraceExporter({ url: address, timeoutMillis: timeoutMs }), onSent);
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": "farebox", "service.version": version }).merge(
      detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] }),
    ),
    sampler: samplerFor(sampler),
    spanLimits: { attributeValueLengthLimit: textMax },
    spanProcessors: [processor],
  });
  const tracer = provider.getTracer("farebox", version);
  const propagator = new W3CTraceContextPropagator();
  return {
    start(exchange, route) {
      const { id, method, startedAt } = exchange;
      const parent = propagator.extract(ROOT_CONTEXT, exchange, {
        get: (from, name) => from.header(name),
        keys: () => [],
      });
      // The end of a span is its start plus a monotonic duration, so a change of the system clock changes no duration.
      const arrivedAt = clock.now() - (clock.monotonic() - startedAt);
      const span = tracer.startSpan(
        spanName(method, route, {}),
        { kind: SpanKind.CLIENT, startTime: arrivedAt, attributes: firstAttributes(id, method, route, gateway) },
        parent,
      );
      const headers: Record<string, string> = {};
      propagator.inject(trace.setSpan(ROOT_CONTEXT, span), headers, {
        set: (into, name, value) => void (into[name] = value),
      });
      const now = () => arrivedAt + (clock.monotonic() - startedAt);
      return new OpenSpan({ span, headers, now, nameOf: (facts) => spanName(method, route, facts) });
    },
    async flush() {
      await provider.forceFlush({ timeoutMillis: timeoutMs }).catch(() => undefined);
      processor.abandon("the proxy ended");
    },
  };
}

function samplerFor({ isParentBased, root, ratio }: TracingOptions["sampler"]): Sampler {
  const own = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(ratio),
  }[root]();
  return isParentBased ? new ParentBasedSampler({ root: own }) : own;
}

interface OpenSpanParams {
  readonly span: Span;
  readonly headers: Readonly<Record<string, string>>;
  /** Returns the current time, in milliseconds since 1970 UTC. */
  readonly now: () => number;
  readonly nameOf: (facts: SpanFacts) => string;
}

/**
 * Span of one request. The cost is known only after the answer, so the span is completed once the charge is settled.
 */
class OpenSpan implements RequestSpan {
  readonly headers: Readonly<Record<string, string>>;
  readonly #params: OpenSpanParams;
  #facts: SpanFacts = {};

  constructor(params: OpenSpanParams) {
    this.headers = params.headers;
    this.#params = params;
  }

  note(facts: SpanFacts): void {
    this.#facts = { ...this.#facts, ...facts };
  }

  end(status: number | null): void {
    const { span, now } = this.#params;
    if (span.isRecording()) void this.#complete(status, now());
  }

  async #complete(status: number | null, endedAt: number): Promise<void> {
    const { span, nameOf } = this.#params;
    const posted = await (this.#facts.settled?.catch(() => null) ?? null);
    const error = errorOf(status, this.#facts);
    span.updateName(nameOf(this.#facts));
    span.setAttributes(lastAttributes(status, this.#facts, posted));
    if (error !== null) span.setAttribute("error.type", error).setStatus({ code: SpanStatusCode.ERROR });
    span.end(endedAt);
  }
}

/** Sends spans in batches. Reports the number of spans that the receiver accepted, and the number of lost spans. */
class BoundedProcessor implements SpanProcessor {
  readonly #batches: BatchSpanProcessor;
  readonly #exporter: SpanExporter;
  readonly #onSent: (sent: SpansSent) => void;
  /** Number of ended spans that are neither sent nor lost. */
  #waiting = 0;

  constructor(exporter: SpanExporter, onSent: (sent: SpansSent) => void) {
    this.#exporter = exporter;
    this.#onSent = onSent;
    this.#batches = new BatchSpanProcessor({
      exporter: {
        export: (spans, done) => {
          exporter.export(spans, (result) => {
            const isLost = result.code !== ExportResultCode.SUCCESS;
            this.#sent(spans.length, isLost ? reasonOf(result.error) : null);
            done(result);
          });
        },
        forceFlush: async () => await exporter.forceFlush?.(),
        shutdown: () => exporter.shutdown(),
      },
      maxQueueSize: waitingMax,
      scheduledDelayMillis: sendAfterMs,
    });
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#waiting >= waitingMax) return this.#onSent({ spans: 1, lost: "too many spans wait to be sent" });
    this.#waiting++;
    this.#batches.onEnd(span);
  }

  /** Sends the ended spans, and waits for batches that are being sent. */
  async forceFlush(): Promise<void> {
    await this.#batches.forceFlush().catch(() => undefined);
    await this.#exporter.forceFlush?.();
  }

  shutdown(): Promise<void> {
    return this.#batches.shutdown();
  }

  /** Reports the spans that still wait as lost. */
  abandon(reason: string): void {
    if (this.#waiting > 0) this.#sent(this.#waiting, reason);
  }

  #sent(spans: number, lost: string | null): void {
    const known = Math.min(spans, this.#waiting);
    this.#waiting -= known;
    if (known > 0) this.#onSent({ spans: known, lost });
  }
}

/** Returns the reason for a failed export, without the receiver's answer, which may repeat a credential. */
function reasonOf(error: (Error & { readonly code?: unknown }) | undefined): string {
  const parts = [error?.code, error?.message].filter((part) => part !== undefined && part !== "");
  return parts.length === 0 ? "no reason was given" : parts.join(" ");
}
