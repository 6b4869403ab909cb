import type { Credits } from "../core/account.ts";
import type { AdminFailure } from "../core/keys.ts";
import type { Source } from "../core/charge.ts";
import type { Doubt, TokenCounts } from "../core/usage.ts";
import type { PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { FinalStatus, TaskCeilings, TaskFailure } from "../core/tasks.ts";

/** A request that has received any answer. Durations are in milliseconds. */
export interface RequestEnded {
  readonly id: string;
  readonly route: string;
  /** Id in the catalogue; `other` for an unknown model; null if the request named no model. */
  readonly model: string | null;
  readonly status: number;
  readonly stream: boolean;
  readonly durationMs: number;
  readonly firstTokenMs: number | null;
  /** Time that Farebox took before it sent the request to the gateway; null if it did not send it. */
  readonly overheadMs: number | null;
}

/** A key as a charge names it. */
export interface ChargedKey {
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
}

/** A request with a hold. Key and model are null if unknown. */
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

/** Latest answer about the gateway's account. Null means unknown, not 0. */
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
  /** Reports `request` when a request arrives, and `stream` when it proves to be a stream. `requestEnded` ends both. */
  requestStarted(kind: "request" | "stream"): void;
  requestEnded(event: RequestEnded): void;
  /** The first use of a key or a model starts its series at 0. */
  admitted(admission: Admission): void;
  refused(refusal: Refusal): void;
  /** Reports the paths of request fields that Farebox does not know. */
  unknownFields(event: { readonly route: string; readonly fields: readonly string[] }): void;
  /** Reports a stream that arrived all at once; its model is marked. `model`: id in the catalogue. */
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
  /** Reports a ledger transaction with its duration in seconds and its number of calls. */
  ledgerWrote(seconds: number, calls: number): void;
  /** Reports the latest answer about the account; null if the answer was missing or not valid. */
  accountRead(account: AccountRead | null): void;
}
