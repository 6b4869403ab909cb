import type { CatalogueData } from "../../catalogue/catalogue.ts";
import type { BudgetWindow } from "../../core/budget.ts";
import type { Key, RunSession, Team } from "../../core/keys.ts";
import type { Refusal } from "../../core/refusals.ts";
import type { Caller } from "../../core/scope.ts";
import type { ProcessMetric } from "../metrics/process-metrics.ts";
import type { Events, RefusedRequest } from "../../ports/events.ts";
import type { BodyResult, HeaderList, Summary } from "../../ports/exchange.ts";
import type { Authenticated } from "../../request/authenticate.ts";
import type { Claimed, TaskClaim } from "../../request/task-ownership.ts";
import type { Route } from "../http/http-app.ts";
import type { Link } from "./link.ts";
import type { ExtendCommand, HoldCommand, Outcome, PostCommand, VoidCommand } from "../../ledger/commands.ts";
import type { RunCommand } from "../../ledger/tables/tables.ts";

/*
 * Calls between the primary process of a proxy and its workers. The primary owns everything that must exist only once:
 * ledger, limits, jobs, sessions and counters. A worker owns connections to clients and to the gateway.
 */

/** A worker's end of the link. */
export type PrimaryLink = Link<PrimaryCalls, WorkerCalls>;

/** The primary's end of the link to one worker. */
export type WorkerLink = Link<WorkerCalls, PrimaryCalls>;

/** Calls of a worker to the primary. */
export interface PrimaryCalls {
  /** Returns what a worker needs to start. It is the first call of a worker. */
  hello(given: null): Start;
  /** Reports that the worker can answer requests. */
  ready(given: null): void;
  /** Reports that the worker has received the connection that the primary sent to it. */
  receivedConnection(given: null): void;

  command(given: RequestCommand): Outcome;
  isLedgerWritable(given: null): boolean;
  key(id: string): Key | undefined;
  team(name: string): Team | undefined;
  session(id: string): RunSession | undefined;
  sessionSecret(given: null): string;

  /** Returns the windows of the budgets that apply to a caller. */
  windowsOf(given: { readonly caller: Caller; readonly at: number }): readonly BudgetWindow[];

  /** Acquires a slot of the limits. `id` is the worker's own number for the slot. */
  enter(given: {
    readonly id: number;
    readonly who: Authenticated;
    readonly isFree: boolean;
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

  /** Returns a refusal if the gateway's balance is under its floor; null otherwise. */
  belowFloor(given: null): Refusal | null;
  /** Returns the id of the key that created a task; undefined for a task that is not in the ledger. */
  taskOwner(taskId: string): string | undefined;
  claimTask(claim: TaskClaim): Claimed;
  /**
   * Acquires memory. Returns the number of acquired bytes: at least `bytes` and at most `bytes + ahead`, or 0 if there is
   * not enough. `body`: body that needs the memory; null for the memory that the worker's small bodies share.
   */
  acquire(given: { readonly body: NumberedBody | null; readonly bytes: number; readonly ahead: number }): number;
  /** Releases memory that small bodies shared. */
  release(bytes: number): void;
  /** Reports that a body is complete. Releases all of its memory but `bytes`. */
  bodyArrived(given: { readonly id: number; readonly bytes: number }): void;
  /** Releases all memory of a body. */
  releaseBody(id: number): void;

  event(given: EventCall): void;
  /** Answers a request to a path that the primary serves. */
  answer(given: RoutedRequest): RoutedAnswer;
  /** Reports that the client of a routed request has disconnected. */
  clientGone(id: string): void;
}

/** Calls of the primary to a worker. */
export interface WorkerCalls {
  /** Reports a change of keys, teams, budgets or settings. Returns when the worker has dropped all outdated values. */
  changed(given: null): void;
  prices(parts: CatalogueData): void;
  /** Stops accepting requests. Returns when every request is settled, so that the worker may end. */
  drain(given: null): void;
  /** Ends all requests at once. Returns when they are settled. */
  cutOff(given: null): void;
  /**
   * Returns the body of a routed request. The worker keeps the body's memory until the request is answered. The memory
   * counts for the key of `recordAs`.
   */
  readBody(given: {
    readonly id: string;
    readonly limitBytes: number | null;
    readonly recordAs: RefusedRequest | null;
  }): RoutedBody;
  /** Refuses a body that is still arriving, because other keys need its memory. */
  refuseBody(id: number): void;
  /** Sends the next part of a routed answer. Returns when the client accepts more, or has disconnected. */
  sendPart(given: { readonly id: string; readonly head: RoutedHead | null; readonly bytes: Uint8Array }): void;
  /** Returns the worker's metrics, after all earlier events have been sent. */
  metrics(given: null): readonly ProcessMetric[];
}

/** Body for which a worker acquires memory in the name of its owner. `id`: the worker's own number for the body. */
export interface NumberedBody {
  readonly id: number;
  readonly owner: string;
}

export interface Start {
  /** Settings as `packSettings` returns them. */
  readonly settings: unknown;
  readonly prices: CatalogueData;
  /** All routes of the proxy, in order. */
  readonly routes: readonly Pick<Route, "method" | "path">[];
  /** Number of the worker, from 1. A replacement has the number of the worker that died. */
  readonly number: number;
  readonly workers: number;
}

/** Reply to a call for a slot. `headers` state the remaining limits, for the response. */
export type SlotReply<Reply> = Reply & { readonly headers: HeaderList };

/** Commands of the request path to the ledger. */
export type RequestCommand =
  | HoldCommand
  | ExtendCommand
  | PostCommand
  | VoidCommand
  | Extract<RunCommand, { 1: "firstTexts.firstText" | "streamBursts.burstMarks" }>;

/** Names of the events that workers send to the primary. */
export const workerEvents = [
  "requestStarted",
  "requestEnded",
  "admitted",
  "refused",
  "unknownFields",
  "streamBurst",
  "spansSent",
  "gatewayKey",
  "posted",
] as const;

/** Event of a request in a worker: its name and its content. */
export type EventCall = {
  readonly [Name in (typeof workerEvents)[number]]: readonly [name: Name, given: Parameters<Events[Name]>[0]];
}[(typeof workerEvents)[number]];

/** Request that a worker received and passes to the primary, because the primary serves its path. */
export interface RoutedRequest {
  /** Index of the route in `Start.routes`. */
  readonly route: number;
  readonly id: string;
  /** Time since the request arrived, in milliseconds. */
  readonly ageMs: number;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly isLocal: boolean;
  readonly remoteAddress: string;
  readonly hasLargeRemainder: boolean;
}

export type RoutedBody =
  | { readonly ok: true; readonly bytes: Uint8Array }
  | Extract<BodyResult, { readonly ok: false }>;

/** Status and headers of an answer. */
export interface RoutedHead {
  readonly status: number;
  readonly headers: HeaderList;
  readonly replaced: ReplacedHeaders | null;
}

export type RoutedAnswer = { readonly summary: Summary } & (
  | ({ readonly kind: "answer"; readonly body: Uint8Array | string } & RoutedHead)
  | {
      readonly kind: "refusal";
      readonly refusal: Refusal;
      readonly request: RefusedRequest | null;
      readonly headers: HeaderList;
      readonly replaced: ReplacedHeaders | null;
    }
  /** End of an answer that was sent in parts. `head` is null if it was sent with the first part. */
  | { readonly kind: "end"; readonly head: RoutedHead | null }
  /** The answer cannot be completed. */
  | { readonly kind: "broken" }
  /** Nothing was answered: the client had disconnected. */
  | { readonly kind: "none" }
);

/** Headers that replace all other headers whose names start with `prefix`. */
export interface ReplacedHeaders {
  readonly prefix: string;
  readonly headers: HeaderList;
}
