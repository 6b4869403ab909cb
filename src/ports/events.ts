import type { Credits } from "../core/account.ts";
import type { AdminFailure } from "../core/keys.ts";
import type { Source } from "../core/charge.ts";
import type { Doubt, TokenCounts } from "../core/usage.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { FinalStatus, TaskCeilings, TaskFailure } from "../core/tasks.ts";

/** A request that has been answered, whatever the answer. Durations in milliseconds. */
export interface RequestEnded {
  readonly id: string;
  readonly route: string;
  /** The catalogue's id, `other` for a model that it does not know; null where none was asked for. */
  readonly model: string | null;
  readonly status: number;
  readonly stream: boolean;
  readonly durationMs: number;
  readonly firstTokenMs: number | null;
  /** Time that Farebox itself took before the gateway was asked; null when it was not. */
  readonly overheadMs: number | null;
}

/** A key as a charge names it. */
export interface ChargedKey {
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
}

/** A request that is held. Key and model are null where none is known. */
export interface Admission {
  readonly key: ChargedKey | null;
  readonly route: string;
  readonly model: string | null;
  readonly group: string | null;
  /** As in the hold. */
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
  /** Why the cost may differ from the bill. */
  readonly doubts: readonly Doubt[];
}

/** Latest answer about the gateway's account. Null is unknown, never 0. */
export interface AccountRead {
  readonly usd: number | null;
  readonly credits: Credits;
  readonly plan: string | null;
  readonly type: string | null;
  readonly ceilings: TaskCeilings;
  /** Milliseconds since 1970 UTC. */
  readonly fetchedAt: number;
}

/** Events of the request path for metrics. Calls return at once and never throw. */
export interface Events {
  /** `request` when one arrives, `stream` as well once it is known to be one; `requestEnded` ends both. */
  requestStarted(kind: "request" | "stream"): void;
  requestEnded(event: RequestEnded): void;
  /** The first use of a key or a model starts its series at 0. */
  admitted(admission: Admission): void;
  refused(refusal: Refusal): void;
  /** A request has fields that Farebox does not know: their paths. */
  unknownFields(event: { readonly route: string; readonly fields: readonly string[] }): void;
  /** A stream came at once, so that its model is marked. `model`: the catalogue's id. */
  streamBurst(event: { readonly model: string }): void;
  /** A failed try to use the admin API. */
  adminFailed(why: AdminFailure): void;
  posted(event: ChargePosted): void;
  /** A task was settled, with its end and the reason of a failure. `model` as in a charge. */
  taskEnded(event: {
    readonly model: string | null;
    readonly status: FinalStatus;
    readonly failure: TaskFailure | null;
  }): void;
  /** A ledger transaction with its duration in seconds and its number of calls. */
  ledgerWrote(seconds: number, calls: number): void;
  /** Null when there was no record. */
  accountRead(account: AccountRead | null): void;
}
