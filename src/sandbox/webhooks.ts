import { pause } from "./pause.ts";

/** Webhook from the creation of a task. */
export interface Webhook {
  readonly endpoint: string;
  readonly secret: string;
}

interface WebhookOptions {
  /** Unix time in milliseconds. */
  readonly now: () => number;
  /** Pause between two attempts, in milliseconds. */
  readonly retryMs: number;
  /** Called after every attempt. */
  readonly onAttempt: (attempt: WebhookAttempt) => void;
}

export interface WebhookAttempt {
  readonly endpoint: string;
  /** Number of the attempt; 1 for the first. */
  readonly number: number;
  /** Status of the answer; null if there was none. */
  readonly status: number | null;
}

const attemptsMax = 3;
const timeoutMs = 10_000;

/**
 * Sends events as the gateway does: `{timestamp, data}` with the secret in a header. Makes at most three attempts and
 * follows no redirects.
 */
export class Webhooks {
  readonly #options: WebhookOptions;
  readonly #ending = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  /**
   * Sends an event. Resolves when the event was delivered or abandoned, or at once if there is no webhook. Never
   * rejects.
   */
  send({ endpoint, secret }: Webhook, data: object): Promise<void> {
    if (!URL.canParse(endpoint) || this.#ending.signal.aborted) return Promise.resolve();
    const body = JSON.stringify({ timestamp: Math.floor(this.#options.now() / 1000), data });
    return this.#run(this.#sendUntilAccepted(endpoint, secret, body));
  }

  /** Calls `send` after a delay, unless `stop` is called before. */
  after(ms: number, send: () => Promise<void>): void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        void this.#run(send());
      },
      Math.max(ms, 0),
    );
    this.#timers.add(timer);
  }

  #run(delivery: Promise<void>): Promise<void> {
    const work = delivery.finally(() => this.#running.delete(work));
    this.#running.add(work);
    return work;
  }

  /** Abandons all events. Resolves when no attempt is running. */
  async stop(): Promise<void> {
    this.#ending.abort();
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(this.#running);
  }

  async #sendUntilAccepted(endpoint: string, secret: string, body: string): Promise<void> {
    for (let number = 1; number <= attemptsMax && !this.#ending.signal.aborted; number += 1) {
      if (number > 1 && !(await pause(this.#options.retryMs, this.#ending.signal))) return;
      const status = await this.#try(endpoint, secret, body);
      this.#options.onAttempt({ endpoint, number, status });
      if (status !== null && status >= 200 && status < 300) return;
    }
  }

  async #try(endpoint: string, secret: string, body: string): Promise<number | null> {
    try {
      const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(timeoutMs)]);
      const headers = { "content-type": "application/json", ...(secret !== "" && { "x-webhook-secret": secret }) };
      const answer = await fetch(endpoint, { method: "POST", headers, body, redirect: "manual", signal });
      await answer.body?.cancel();
      return answer.status;
    } catch {
      return null;
    }
  }
}
