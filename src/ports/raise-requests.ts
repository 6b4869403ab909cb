import type { RequestedRaise } from "../core/alerts.ts";
import type { PicoUsd } from "../core/money.ts";

/** Request of a key for a raise of a window that refuses the key. Times are in milliseconds since 1970 UTC. */
export interface NewRaiseRequest extends RequestedRaise {
  readonly at: number;
}

export interface RaiseRequest extends NewRaiseRequest {
  readonly state: "open" | "approved" | "denied";
  readonly decidedAt: number | null;
  readonly decidedBy: string | null;
  /** Amount and end of the approved raise. */
  readonly granted: PicoUsd | null;
  readonly until: number | null;
}

/** Returns the state of a request. An open request lapses at the end of its window. */
export function raiseRequestState({ state, lapsesAt }: RaiseRequest, at: number): RaiseRequest["state"] | "lapsed" {
  return state === "open" && lapsesAt !== null && lapsesAt <= at ? "lapsed" : state;
}

/** Shortest time between two requests of a key for raises of one budget, in milliseconds. */
export const raiseRequestPauseMs = 3_600_000;

export type RaiseRequested =
  | { readonly ok: true }
  /**
   * `open`: the key has an open request for the budget. `too_soon`: the key's last request for the budget is less than
   * an hour old.
   */
  | { readonly ok: false; readonly reason: "open" | "too_soon" | "no_such_budget" };

export type RaiseDecided =
  | { readonly ok: true; readonly request: RaiseRequest }
  /** `lapsed`: the window has ended. */
  | { readonly ok: false; readonly reason: "no_such_request" | "decided" | "lapsed" | "too_large" };

/** Requests of keys for raises. */
export interface RaiseRequests {
  /** Returns requests, newest first. `isOpen`: only open ones whose window has not ended at the instant. */
  list(query: {
    readonly key?: string | undefined;
    readonly isOpen?: boolean | undefined;
    readonly at: number;
    readonly limit: number;
  }): Promise<readonly RaiseRequest[]>;
  find(id: string): Promise<RaiseRequest | undefined>;
  create(request: NewRaiseRequest): Promise<RaiseRequested>;
  /** Approves an open request with an amount, and raises the window. */
  approve(
    id: string,
    raise: { readonly amount: PicoUsd; readonly from: number; readonly until: number | null },
    at: number,
    by: string,
  ): Promise<RaiseDecided>;
  deny(id: string, at: number, by: string): Promise<RaiseDecided>;
}
