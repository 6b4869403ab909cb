import type { CatalogueData } from "../../catalogue/catalogue.ts";
import type { Key, RunSession, Team } from "../../core/keys.ts";
import type { Refusal } from "../../core/refusals.ts";
import type { ProcessMetric } from "../metrics/process-metrics.ts";
import type { Events } from "../../ports/events.ts";
import type { BodyResult, HeaderList } from "../../ports/exchange.ts";
import type { Authenticated } from "../../request/authenticate.ts";
import type { Claimed, TaskClaim } from "../../request/task-ownership.ts";
import type { Summary } from "../../request/handler.ts";
import type { Route } from "../http/http-app.ts";
import type { Link } from "./link.ts";
import type {
  ExtendCommand,
  HoldCommand,
  Outcome,
  PostCommand,
  StreamsCommand,
  VoidCommand,
  WrittenCommand,
} from "../../ledger/commands.ts";

/*
 * The calls between the primary process of a proxy and its workers. The primary has everything of which there must be one:
 * the ledger, the limits, the jobs, the sessions, the counters. A worker has connections of clients and of the gateway.
 */

/** A worker's end of the line. */
export type PrimaryLink = Link<PrimaryCalls, WorkerCalls>;

/** The primary's end of the line to one worker. */
export type WorkerLink = Link<WorkerCalls, PrimaryCalls>;

/** Calls of a worker to the primary. */
export interface PrimaryCalls {
  /** The first call of a worker. */
  hello(given: null): Start;
  /** The worker can answer requests from now on. */
  ready(given: null): void;
  /** The worker has taken the connection that was sent last. */
  took(given: null): void;

  command(given: RequestCommand): Outcome;
  isLedgerWritable(given: null): boolean;
  key(id: string): Key | undefined;
  team(name: string): Team | undefined;
  session(id: string): RunSession | undefined;
  sessionSecret(given: null): string;

  /** `id`: the worker's own number for the slot. */
  enter(given: {
    readonly id: number;
    readonly who: Authenticated;
  }): SlotReply<{ readonly refusal: Refusal | null; readonly countsTokens: boolean }>;
  reserve(given: { readonly id: number; readonly tokens: number }): SlotReply<{ readonly fits: boolean }>;
  reserveOrRefuse(given: {
    readonly id: number;
    readonly tokens: number;
    readonly exact: boolean;
  }): SlotReply<{ readonly refusal: Refusal | null }>;
  settleTokens(given: { readonly id: number; readonly used: number | null }): void;
  cancel(given: { readonly id: number }): void;
  leave(given: { readonly id: number }): void;

  belowFloor(given: null): Refusal | null;
  /** Returns the id of the key that created a task; undefined for a task that is not in the ledger. */
  taskOwner(taskId: string): string | undefined;
  claimTask(claim: TaskClaim): Claimed;
  /** Acquires memory for bodies. Returns from `needed` to `wanted` bytes; 0 where there is no room. */
  acquire(given: { readonly needed: number; readonly wanted: number }): number;
  release(bytes: number): void;

  event(given: EventCall): void;
  /** Answers a request of a path that the primary serves. */
  answer(given: RoutedRequest): RoutedAnswer;
  /** The client of such a request has disconnected. */
  clientGone(id: string): void;
}

/** Calls of the primary to a worker. */
export interface WorkerCalls {
  /** Keys, teams, budgets or settings have changed. Answered when the worker has dropped all outdated values. */
  changed(given: null): void;
  prices(parts: CatalogueData): void;
  /** Answered when every request is settled; then the worker may end. */
  drain(given: null): void;
  /** Like `drain`, at once. */
  cutOff(given: null): void;
  /** Returns the body of a request that the primary answers; it is kept until the answer. */
  readBody(given: { readonly id: string; readonly limitBytes: number | null }): RoutedBody;
  /** The answer comes after all earlier events. */
  metrics(given: null): readonly ProcessMetric[];
}

export interface Start {
  /** Packed by `packSettings`. */
  readonly settings: unknown;
  readonly prices: CatalogueData;
  /** All of the proxy's, in their order. */
  readonly routes: readonly Pick<Route, "method" | "path">[];
  /** From 1. A replacement has the number of the worker that died. */
  readonly number: number;
  readonly workers: number;
}

/** `headers`: the present remainders of the limits, for the response. */
export type SlotReply<Reply> = Reply & { readonly headers: HeaderList };

/** Commands of the request path to the ledger. */
export type RequestCommand = HoldCommand | ExtendCommand | PostCommand | VoidCommand | WrittenCommand | StreamsCommand;

type EventNames =
  | "requestStarted"
  | "requestEnded"
  | "admitted"
  | "refused"
  | "unknownFields"
  | "streamBurst"
  | "posted";
/** Events of requests in a worker. */
export type EventCall = {
  readonly [Name in EventNames]: readonly [name: Name, given: Parameters<Events[Name]>[0]];
}[EventNames];

export interface RoutedRequest {
  /** Index of its route. */
  readonly route: number;
  readonly id: string;
  /** Time since it arrived. Milliseconds. */
  readonly ageMs: number;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly isLocal: boolean;
  readonly remoteAddress: string;
}

export type RoutedBody =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | Extract<BodyResult, { readonly ok: false }>;

export type RoutedAnswer = { readonly summary: Summary } & (
  | {
      readonly kind: "answer";
      readonly status: number;
      readonly headers: HeaderList;
      readonly body: Uint8Array | string;
      readonly replaced: ReplacedHeaders | null;
    }
  | {
      readonly kind: "refusal";
      readonly refusal: Refusal;
      readonly headers: HeaderList;
      readonly replaced: ReplacedHeaders | null;
    }
  /** Nothing was answered: the client had disconnected. */
  | { readonly kind: "none" }
);

/** Headers that replace all others with this prefix. */
export interface ReplacedHeaders {
  readonly prefix: string;
  readonly headers: HeaderList;
}
