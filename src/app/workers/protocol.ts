import type { CatalogueData } from "../../catalogue/catalogue.ts";
import type { Key } from "../../core/keys.ts";
import type { Refusal } from "../../core/refusals.ts";
import type { RunSession } from "../../core/run-sessions.ts";
import type { Team } from "../../core/teams.ts";
import type { ProcessMetric } from "../../metrics/process-metrics.ts";
import type { Events } from "../../ports/events.ts";
import type { BodyResult, HeaderList } from "../../ports/exchange.ts";
import type { Authenticated } from "../../proxy/authenticate.ts";
import type { Claimed, TaskClaim } from "../../proxy/task-ownership.ts";
import type { Summary } from "../../proxy/handler.ts";
import type { Route } from "../../http/http-app.ts";
import type {
  ExtendCommand,
  HoldCommand,
  Outcome,
  PostCommand,
  VoidCommand,
  StreamsCommand,
  WrittenCommand,
} from "../../store/commands.ts";

/*
 * What crosses between the primary process of a proxy and its workers. The primary has whatever there must be one of: the
 * ledger, the limits, the jobs, the sessions, the counters. A worker has connections of clients and of the gateway.
 */

/** What a worker asks of the primary. */
export interface PrimaryCalls {
  /** The first thing that a worker says. */
  hello(given: null): Start;
  /** It can answer requests from now on. */
  ready(given: null): void;
  /** The connection that it was handed last is its own now. */
  took(given: null): void;

  command(given: RequestCommand): Outcome;
  isLedgerWritable(given: null): boolean;
  key(id: string): Key | undefined;
  team(name: string): Team | undefined;
  session(id: string): RunSession | undefined;
  sessionSecret(given: null): string;

  /** `id`: the worker's own number for the place. */
  enter(given: {
    readonly id: number;
    readonly who: Authenticated;
  }): PlaceReply<{ readonly refusal: Refusal | null; readonly countsTokens: boolean }>;
  reserve(given: { readonly id: number; readonly tokens: number }): PlaceReply<{ readonly fits: boolean }>;
  reserveOrRefuse(given: {
    readonly id: number;
    readonly tokens: number;
    readonly exact: boolean;
  }): PlaceReply<{ readonly refusal: Refusal | null }>;
  settleTokens(given: { readonly id: number; readonly used: number | null }): void;
  cancel(given: { readonly id: number }): void;
  leave(given: { readonly id: number }): void;

  belowFloor(given: null): Refusal | null;
  /** The id of the key that made a task; undefined for a task that the ledger does not know. */
  taskOwner(taskId: string): string | undefined;
  claimTask(claim: TaskClaim): Claimed;
  /** Memory for bodies: answers with what is lent, at least `needed` bytes and at most `wanted`; 0 where there is no room. */
  borrow(given: { readonly needed: number; readonly wanted: number }): number;
  giveBack(bytes: number): void;

  event(given: EventCall): void;
  /** A request of a path that the primary answers itself. */
  answer(given: RoutedRequest): RoutedAnswer;
  /** The client of such a request has gone. */
  clientGone(id: string): void;
}

/** What the primary asks of a worker. */
export interface WorkerCalls {
  /** Keys, teams, budgets or settings have changed. Answered when nothing outdated is remembered any more. */
  changed(given: null): void;
  prices(parts: CatalogueData): void;
  /** Answered when every request is settled; then the worker may end. */
  drain(given: null): void;
  /** As a drain, at once. */
  cutOff(given: null): void;
  /** The body of a request that the primary answers; it is kept until that is done. */
  readBody(given: { readonly id: string; readonly limitBytes: number | null }): RoutedBody;
  /** All that was told before has come when this is answered. */
  metrics(given: null): readonly ProcessMetric[];
}

export interface Start {
  /** Secrets as `packed` has them. */
  readonly settings: unknown;
  readonly prices: CatalogueData;
  /** All of the proxy's, in their order. */
  readonly routes: readonly Pick<Route, "method" | "path">[];
  /** From 1; that of a worker that died is given again. */
  readonly number: number;
  readonly workers: number;
}

/** With what is left of the limits as of now, for the answer's headers. */
export type PlaceReply<Reply> = Reply & { readonly headers: HeaderList };

/** What the path of a request asks of the ledger. */
export type RequestCommand = HoldCommand | ExtendCommand | PostCommand | VoidCommand | WrittenCommand | StreamsCommand;

type EventNames =
  | "requestStarted"
  | "requestEnded"
  | "admitted"
  | "refused"
  | "unknownFields"
  | "streamBurst"
  | "posted";
/** The events of requests that a worker tells of. */
export type EventCall = {
  readonly [Name in EventNames]: readonly [name: Name, given: Parameters<Events[Name]>[0]];
}[EventNames];

export interface RoutedRequest {
  /** Its place among the routes. */
  readonly route: number;
  readonly id: string;
  /** How long ago it arrived. Milliseconds. */
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
  /** Nothing was answered, as to a client that has gone. */
  | { readonly kind: "none" }
);

/** Headers that take the place of all others with this prefix. */
export interface ReplacedHeaders {
  readonly prefix: string;
  readonly headers: HeaderList;
}
