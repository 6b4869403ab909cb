import type { WebhookAttempt } from "./webhooks.ts";
import type { SandboxRequest, SeenRequest } from "./options.ts";

/** Recorded request while it is being answered. */
export type OpenRequest = { -readonly [Name in keyof SeenRequest]: SeenRequest[Name] };

interface Waiter {
  readonly check: () => void;
  readonly fail: (reason: Error) => void;
}

/** Records requests and other events. Resolves each `waitFor` when its condition is true. */
export class Observer {
  readonly requests: OpenRequest[] = [];
  /** Requests for the account record. They are in a separate list, because a proxy sends them on a timer. */
  readonly accountRequests: OpenRequest[] = [];
  activeStreams = 0;
  openConnections = 0;
  readonly webhookAttempts: WebhookAttempt[] = [];
  /**
   * Number of all requests so far, except those for the account record. Includes those no longer in `requests`. A call's
   * number is the value at its arrival.
   */
  requestCount = 0;
  readonly #keep: number;
  readonly #waiters = new Set<Waiter>();

  constructor(keepRequests: number) {
    this.#keep = keepRequests;
  }

  record(request: SandboxRequest, at: number): OpenRequest {
    const seen: OpenRequest = { ...request, at, scenario: "", status: null, deltas: 0, ended: "open" };
    if (request.path.endsWith("/account/info")) this.#keepIn(this.accountRequests, seen);
    else {
      this.requestCount += 1;
      this.#keepIn(this.requests, seen);
    }
    this.changed();
    return seen;
  }

  #keepIn(list: OpenRequest[], seen: OpenRequest): void {
    if (this.#keep > 0) list.push(seen);
    if (list.length > 2 * this.#keep) list.splice(0, list.length - this.#keep);
  }

  recordWebhookAttempt(attempt: WebhookAttempt): void {
    this.webhookAttempts.push(attempt);
    this.changed();
  }

  /** Checks all waiting conditions. Call this after every change. */
  changed(): void {
    for (const waiter of this.#waiters) waiter.check();
  }

  waitFor(condition: () => boolean, timeoutMs: number, what: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const settle = (end: () => void) => {
      clearTimeout(timer);
      this.#waiters.delete(waiter);
      end();
    };
    const fail = (reason: Error) => settle(() => reject(reason));
    const check = () => {
      try {
        if (condition()) settle(resolve);
      } catch (error) {
        fail(error instanceof Error ? error : new Error(String(error)));
      }
    };
    const waiter = { check, fail };
    const timer = setTimeout(() => fail(new Error(`the sandbox waited ${timeoutMs} ms for ${what}`)), timeoutMs);
    this.#waiters.add(waiter);
    check();
    return promise;
  }

  failWaiters(): void {
    for (const waiter of this.#waiters) waiter.fail(new Error("the sandbox was closed"));
  }
}
