import type { RefusalCode } from "../core/refusals.ts";
import type { ChargePosted } from "./events.ts";

/** Records one span for each request on a path of the gateway. */
export interface Tracing {
  /** Starts the span of a request. `route`: name of the route in charges and metrics. */
  start(request: TracedRequest, route: string): RequestSpan;
}

/** Request of a client at its arrival. */
interface TracedRequest {
  readonly id: string;
  readonly method: string;
  /** Arrival time on the clock's monotonic scale. */
  readonly startedAt: number;
  /** Returns a header by its lower-case name; undefined if absent. */
  header(name: string): string | undefined;
}

/** Known properties of a request, for its span. They never contain a prompt, an answer or a secret. */
export interface SpanFacts {
  /** Name of the key; null for a request without one. */
  readonly key?: string | null;
  readonly team?: string | null;
  /** Model as the request names it. */
  readonly model?: string;
  /** Id of the model in the catalogue; undefined for an unknown model. */
  readonly modelId?: string | undefined;
  /** Model that answered, as the answer names it. */
  readonly servedModel?: string | null;
  readonly stream?: boolean;
  /** Time from arrival to the first byte of the answer, in milliseconds. */
  readonly firstTokenMs?: number | null;
  readonly refusal?: RefusalCode;
  /** Resolves once the charge is settled, with its amount; null if nothing was posted. */
  readonly settled?: Promise<ChargePosted | null>;
}

export interface RequestSpan {
  /** Headers that make the gateway's spans children of this span. */
  readonly headers: Readonly<Record<string, string>>;
  /** Adds properties of the request to the span. */
  note(facts: SpanFacts): void;
  /**
   * Ends the span now, and sends it once the charge is settled. `status`: status of the answer; null if there was none.
   */
  end(status: number | null): void;
}
