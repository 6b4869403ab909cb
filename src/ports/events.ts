import type { Credits } from "../core/account.ts";
import type { AdminFailure } from "../core/keys.ts";
import type { Source } from "../core/charge.ts";
import type { Doubt, TokenCounts } from "../core/usage.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { FinalStatus, TaskCeilings, TaskFailure } from "../core/tasks.ts";

/** A request that has been answered. Durations are in milliseconds. */
export interface RequestEnded {
  readonly id: string;
  readonly route: string;
  /** Id in the catalogue; `other` for an unknown model; null if the request named no model. */
  readonly model: string | null;
  readonly status: number;
  readonly stream: boolean;
  readonly durationMs: number;
  readonly firstTokenMs: number | null;
  /** Time that Farebox took before it sent the request to the gateway; null if it sent none. */
  readonly overheadMs: number | null;
}

/** Key of a charge. */
export interface ChargedKey {
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
}

/** Request whose refusal is recorded. */
export interface RefusedRequest {
  readonly key: ChargedKey | null;
  readonly route: string;
  /** Requested model name, as in charges; `other` if the catalogue does not know it; null until Farebox has read it. */
  model: string | null;
}

/** A refusal. `request` is null if the refusal is counted but not recorded. */
export interface RefusedEvent {
  readonly refusal: Refusal;
  readonly request: RefusedRequest | null;
}

/** A request with a hold. Key and model are null if unknown. */
export interface Admission {
  readonly key: ChargedKey | null;
  readonly route: string;
  readonly model: string | null;
  readonly group: string | null;
  /** Number of earlier attempts that the client's SDK states; 0 for a first attempt. */
  readonly retry: number;
}

export interface ChargePosted {
  readonly id: string;
  readonly key: ChargedKey | null;
  readonly route: string;
  readonly model: string | null;
  readonly group: string | null;
  readonly source: Source;
  readonly cost: PicoUsd | null;
  readonly listCost: PicoUsd | null;
  readonly overage: PicoUsd;
  readonly tokens: TokenCounts;
  /** Reasons why the cost may differ from the bill. */
  readonly doubts: readonly Doubt[];
}

/** Latest answer about the gateway's account. Null means unknown, not 0. */
interface AccountRead {
  readonly usd: number | null;
  readonly credits: Credits;
  readonly plan: string | null;
  readonly type: string | null;
  readonly ceilings: TaskCeilings;
  /** Milliseconds since 1970 UTC. */
  readonly fetchedAt: number;
}

/** Result of sending spans to the receiver of the traces. */
export interface SpansSent {
  readonly spans: number;
  /** Reason why the spans are lost; null if the receiver has them. */
  readonly lost: string | null;
}

/** Events of the request path, for metrics. Calls return immediately and never throw. */
export interface Events {
  /** Reports `request` for a request that arrives, and then `stream` once the request is known to be a stream. */
  requestStarted(kind: "request" | "stream"): void;
  /** Reports the end of a request, and of its stream if it is one. */
  requestEnded(event: RequestEnded): void;
  /** Reports a request with a hold. Metrics of a key or a model start at 0 with its first request. */
  admitted(admission: Admission): void;
  refused(event: RefusedEvent): void;
  /** Reports the paths of request fields that Farebox does not know. */
  unknownFields(event: { readonly route: string; readonly fields: readonly string[] }): void;
  /** Reports that a stream arrived all at once, so that its model is marked. `model`: id in the catalogue. */
  streamBurst(event: { readonly model: string }): void;
  /** Reports a failed attempt to use the admin API. */
  adminFailed(why: AdminFailure): void;
  posted(event: ChargePosted): void;
  /** Reports a settled task, with its final status and the reason of a failure. `model`: as in a charge. */
  taskEnded(event: {
    readonly model: string | null;
    readonly status: FinalStatus;
    readonly failure: TaskFailure | null;
  }): void;
  /** Reports a batch of ledger writes with its duration in seconds and its number of commands. */
  ledgerWrote(seconds: number, commands: number): void;
  /** Reports spans that were sent to the receiver of traces, or were lost. */
  spansSent(event: SpansSent): void;
  /** Reports that the gateway begins to refuse the key of this proxy, or accepts it again. */
  gatewayKey(event: { readonly isRefused: boolean }): void;
  /** Reports the latest answer about the account; null if the answer was missing or not valid. */
  accountRead(account: AccountRead | null): void;
}

/**
 * Combines listeners. Each returned event calls the handlers of all listeners, in their order. Together the listeners
 * must handle every event.
 */
export function combineEvents<const Listeners extends readonly Partial<Events>[]>(
  ...listeners: Listeners
): Pick<Events, { [Index in keyof Listeners]: keyof Listeners[Index] }[number] & keyof Events> {
  const names = new Set(listeners.flatMap((listener) => Object.keys(listener) as (keyof Events)[]));
  const combined = [...names].map((name) => {
    const handlers = listeners.flatMap((listener) => listener[name] ?? []) as ((...given: unknown[]) => void)[];
    return [name, (...given: unknown[]) => handlers.forEach((handle) => handle(...given))];
  });
  return Object.fromEntries(combined) as Events;
}
