import type { IncomingHttpHeaders } from "node:http";
import type { PicoUsd } from "../core/money.ts";
import type { BilledCall, BilledTotals, BillingError, Minimum } from "./billing.ts";
import type { WebhookAttempt } from "./webhooks.ts";
import type { ModelPrice } from "./prices.ts";

/** Request line and headers of a request. */
export interface RequestHead {
  readonly method: string;
  /** Path including its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

export interface SandboxRequest extends RequestHead {
  readonly body: Buffer;
}

/** Recorded request. The sandbox records a request when it has read the headers. */
export interface SeenRequest extends SandboxRequest {
  /** Unix time in milliseconds. */
  readonly at: number;
  /** Scenarios from all sources, as written; empty if there are none. */
  readonly scenario: string;
  /** Status of the answer; null until its headers are written. */
  readonly status: number | null;
  /** Number of stream deltas written so far. */
  readonly deltas: number;
  /** `brokenOff`: the sandbox broke off the answer. `clientLeft`: the client left before the end of the answer. */
  readonly ended: "open" | "answered" | "brokenOff" | "clientLeft";
}

/** Returns scenarios such as `cut:5+slow:20`; undefined for none. */
type Choose<Request> = (request: Request) => string | undefined;

export interface SandboxOptions {
  /** Host to listen on. Default: 127.0.0.1. */
  readonly host?: string;
  /** Port to listen on. Default: 0, which picks a free port. */
  readonly port?: number;
  /** Only key that the sandbox accepts. Default: `sk-sandbox`. */
  readonly apiKey?: string;
  /** Seed of generated answers. The same seed and request body give the same answer. Default: 1. */
  readonly seed?: number;
  /** Balance at the start, in USD. Default: "25.00". */
  readonly startingBalanceUsd?: string;
  /** Prices by model, added to the sandbox's own; "*" applies to any model without a price. */
  readonly prices?: Readonly<Record<string, ModelPrice>>;
  /** Smallest bill for one completion. Default: none. */
  readonly minimum?: Minimum;
  /** Kinds of wrong billing. Default: none. */
  readonly billingErrors?: readonly BillingError[];
  /** Delay before the headers of an answer, in milliseconds. Default: 0. */
  readonly latencyMs?: number;
  /** Delay before each delta of a stream, in milliseconds. Default: 0. */
  readonly chunkDelayMs?: number;
  /** Time after which idle sockets are closed, in milliseconds. Default: 65,000. */
  readonly keepAliveMs?: number;
  /**
   * Chooses the scenarios of a request once its body is read. The scenarios of the header, the model suffix and the
   * message also apply.
   */
  readonly scenario?: Choose<SandboxRequest>;
  /** Chooses the scenarios of a request once its headers are read, for `early-response`. */
  readonly scenarioAtHeaders?: Choose<RequestHead>;
  /** Member of the account record that contains `equivalent_in_usd`. Default: `data`. */
  readonly equivalentInUsd?: "data" | "root" | "wallet" | "credit_pack_info" | "absent";
  /** Number of newest requests to keep, with their bodies. Default: 1,000; 0 keeps none. */
  readonly keepRequests?: number;
  /** Number of newest calls to keep in `ledger`. Default: 100,000; 0 keeps none. */
  readonly keepCalls?: number;
  /** Pause between two attempts to call a webhook, in milliseconds. Default: 5,000. */
  readonly webhookRetryMs?: number;
  /** Returns the Unix time in milliseconds. Default: the machine's clock. */
  readonly now?: () => number;
}

export interface Sandbox extends AsyncDisposable {
  /** Address without a slash at its end and without /v1. */
  readonly url: string;
  readonly port: number;
  readonly apiKey: string;
  /** Requests except those for the account record, oldest first. */
  readonly requests: readonly SeenRequest[];
  /** Requests for the account record, including refused ones. */
  readonly accountRequests: readonly SeenRequest[];
  /** Billed calls, oldest first. A call is added before its client receives the last byte of the answer. */
  readonly ledger: readonly BilledCall[];
  /** Sums of all billed calls. */
  readonly billed: BilledTotals;
  readonly openConnections: number;
  readonly activeStreams: number;
  /** Attempts to call webhooks, oldest first. */
  readonly webhookAttempts: readonly WebhookAttempt[];
  balanceUsd(): string;
  balance(): PicoUsd;
  topUp(amountUsd: string): void;
  expire(amountUsd: string): void;
  freeze(amountUsd: string): void;
  unfreeze(amountUsd: string): void;
  /** Spends an amount as another client of the account would. */
  useByOthers(amountUsd: string): void;
  /**
   * Resolves as soon as the condition is true: checks it now and after every event. Rejects after the timeout (default
   * 45 s) and when the sandbox closes.
   */
  waitFor(condition: (sandbox: Sandbox) => boolean, timeoutMs?: number): Promise<void>;
  /** Closes every socket, including those with an answer in progress. */
  close(): Promise<void>;
}
