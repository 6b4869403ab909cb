import type { IncomingHttpHeaders } from "node:http";
import type { PicoUsd } from "../core/money.ts";
import type { BillingError } from "./billing-errors.ts";
import type { BilledCall, BilledTotals, Minimum } from "./billing.ts";
import type { WebhookTry } from "./webhooks.ts";
import type { ModelPrice } from "./prices.ts";

/** Request as far as its headers show it. */
export interface RequestHead {
  readonly method: string;
  /** Path with its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
}

export interface SandboxRequest extends RequestHead {
  readonly body: Buffer;
}

/** A request as the sandbox saw it, from its headers on. */
export interface SeenRequest extends SandboxRequest {
  /** Unix time in milliseconds. */
  readonly at: number;
  /** Scenarios from all sources, as written; empty without any. */
  readonly scenario: string;
  /** Null until the headers of the answer are written. */
  readonly status: number | null;
  /** Deltas of a stream written so far. */
  readonly deltas: number;
  /** `brokenOff`: by the sandbox itself. `clientLeft`: before the answer's end. */
  readonly ended: "open" | "answered" | "brokenOff" | "clientLeft";
}

/** Names scenarios as in `cut:5+slow:20`. */
type Choose<Request> = (request: Request) => string | undefined;

export interface SandboxOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: a free one. */
  readonly port?: number;
  /** The only key that is served. Default `sk-sandbox`. */
  readonly apiKey?: string;
  /** Same seed and same request body, same answer. Default 1. */
  readonly seed?: number;
  /** Default "25.00". */
  readonly startingBalanceUsd?: string;
  /** Added to the sandbox's own prices by model; "*" is any model without one. */
  readonly prices?: Readonly<Record<string, ModelPrice>>;
  /** Default: none. */
  readonly minimum?: Minimum;
  /** Kind of wrong billing. Default: none. */
  readonly billingErrors?: readonly BillingError[];
  /** Delay before an answer's headers. Default 0. */
  readonly latencyMs?: number;
  /** Delay before each delta of a stream. Default 0. */
  readonly chunkDelayMs?: number;
  /** Idle sockets are closed after this. Default 65,000. */
  readonly keepAliveMs?: number;
  /** Asked once for each request that has been read, the account's too. Header, model suffix and message count as well. */
  readonly scenario?: Choose<SandboxRequest>;
  /** Asked when the headers are read, for `early-response`. */
  readonly scenarioAtHeaders?: Choose<RequestHead>;
  /** Member of the account record that contains `equivalent_in_usd`. Default `data`. */
  readonly equivalentInUsd?: "data" | "root" | "wallet" | "credit_pack_info" | "absent";
  /** Number of newest requests to keep with their bodies. Default 1,000; 0 keeps none. */
  readonly keepRequests?: number;
  /** Number of newest calls to keep in `ledger`. Default 100,000; 0 keeps none. */
  readonly keepCalls?: number;
  /** Pause between two attempts to call a webhook. Default 5,000. */
  readonly webhookRetryMs?: number;
  /** Unix time in milliseconds. Default: the machine's. */
  readonly now?: () => number;
}

export interface Sandbox extends AsyncDisposable {
  /** Without a slash at its end and without /v1. */
  readonly url: string;
  readonly port: number;
  readonly apiKey: string;
  /** Oldest first, without those for the account's record. */
  readonly requests: readonly SeenRequest[];
  /** Refused ones too. */
  readonly accountRequests: readonly SeenRequest[];
  /** Oldest first. A call is in it before its client has the answer's last byte. */
  readonly ledger: readonly BilledCall[];
  /** Sums of all calls ever billed. */
  readonly billed: BilledTotals;
  readonly openConnections: number;
  readonly activeStreams: number;
  /** Attempts to call webhooks, oldest first. */
  readonly webhookTries: readonly WebhookTry[];
  balanceUsd(): string;
  balance(): PicoUsd;
  topUp(amountUsd: string): void;
  expire(amountUsd: string): void;
  freeze(amountUsd: string): void;
  unfreeze(amountUsd: string): void;
  /** Spends as another client with the same account would. */
  useByOthers(amountUsd: string): void;
  /** Resolves as soon as the condition is true, checked now and after every event. Rejects after the timeout (default 15 s) or at close. */
  waitFor(holds: (sandbox: Sandbox) => boolean, timeoutMs?: number): Promise<void>;
  /** Ends every socket, also those of answers in progress. */
  close(): Promise<void>;
}

export type { BillingError, BilledCall, BilledTotals, Minimum, ModelPrice };
