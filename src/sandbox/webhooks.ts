/** Where a task's events are told, as its creation asked. */
export interface Webhook {
  readonly endpoint: string;
  readonly secret: string;
}

export interface WebhookOptions {
  /** Unix time in milliseconds. */
  readonly now: () => number;
  /** Between two tries. Milliseconds. */
  readonly retryMs: number;
  /** Told after every try. */
  readonly onTry: (tried: WebhookTry) => void;
}

export interface WebhookTry {
  readonly endpoint: string;
  /** 1 for the first. */
  readonly number: number;
  /** Null where no answer came. */
  readonly status: number | null;
}

const triesMax = 3;
const patienceMs = 10_000;

/** Tells events as the gateway does: `{timestamp, data}`, the secret repeated in a header, three tries at most; redirects are not followed. */
export class Webhooks {
  readonly #options: WebhookOptions;
  readonly #ending = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  /** Resolves when it was taken, or given up; at once where nobody is to be told. Never rejects. */
  tell({ endpoint, secret }: Webhook, data: object): Promise<void> {
    if (!URL.canParse(endpoint) || this.#ending.signal.aborted) return Promise.resolve();
    const body = JSON.stringify({ timestamp: Math.floor(this.#options.now() / 1000), data });
    const work = this.#tellUntilTaken(endpoint, secret, body).finally(() => this.#running.delete(work));
    this.#running.add(work);
    return work;
  }

  /** Tells something later, unless it is ended before. */
  after(ms: number, tell: () => Promise<void>): void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        const work = tell().finally(() => this.#running.delete(work));
        this.#running.add(work);
      },
      Math.max(ms, 0),
    );
    this.#timers.add(timer);
  }

  /** Ends all that is being told. */
  async stop(): Promise<void> {
    this.#ending.abort();
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(this.#running);
  }

  async #tellUntilTaken(endpoint: string, secret: string, body: string): Promise<void> {
    for (let number = 1; number <= triesMax && !this.#ending.signal.aborted; number += 1) {
      if (number > 1 && !(await this.#rest())) return;
      const status = await this.#try(endpoint, secret, body);
      this.#options.onTry({ endpoint, number, status });
      if (status !== null && status >= 200 && status < 300) return;
    }
  }

  async #try(endpoint: string, secret: string, body: string): Promise<number | null> {
    try {
      const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(patienceMs)]);
      const headers = { "content-type": "application/json", ...(secret !== "" && { "x-webhook-secret": secret }) };
      const answer = await fetch(endpoint, { method: "POST", headers, body, redirect: "manual", signal });
      await answer.body?.cancel();
      return answer.status;
    } catch {
      return null;
    }
  }

  /** False when it was ended meanwhile. */
  #rest(): Promise<boolean> {
    const { signal } = this.#ending;
    return new Promise((resolve) => {
      const end = (isOver: boolean) => {
        clearTimeout(timer);
        signal.removeEventListener("abort", leave);
        resolve(isOver);
      };
      const leave = () => end(false);
      const timer = setTimeout(end, this.#options.retryMs, true);
      signal.addEventListener("abort", leave);
    });
  }
}
