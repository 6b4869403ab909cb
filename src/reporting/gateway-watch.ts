import type { Clock } from "../ports/clock.ts";
import type { Events, RequestEnded } from "../ports/events.ts";
import { minuteMs } from "../core/time.ts";

/**
 * Counts of the gateway's answers since `since`. `byStatus` counts only errors. `minutes`: the last 60 minutes
 * including the current one, oldest first.
 */
export interface GatewayHealth {
  readonly since: number;
  readonly requests: number;
  readonly errors: number;
  readonly byStatus: ReadonlyMap<number, number>;
  readonly minutes: readonly { readonly start: number; readonly requests: number; readonly errors: number }[];
  /** Latest errors, newest first. */
  readonly last: readonly {
    readonly id: string;
    readonly at: number;
    readonly model: string | null;
    readonly status: number;
  }[];
}

const minutesShown = 60;
const minutesKept = 24 * 60;
const errorsKept = 20;
/** Status of a request whose client disconnected. */
const clientLeftStatus = 499;

interface Minute {
  readonly start: number;
  requests: number;
  errors: number;
  readonly byStatus: Map<number, number>;
}

/** Counts the gateway's responses to this proxy by minute. Keeps the counts of the last day, in memory only. */
export class GatewayWatch {
  readonly #clock: Clock;
  readonly #startedAt: number;
  /** Minutes with requests, oldest first. */
  #minutes: Minute[] = [];
  #last: { readonly id: string; readonly at: number; readonly model: string | null; readonly status: number }[] = [];

  readonly events: Pick<Events, "requestEnded"> = { requestEnded: (event) => this.#ended(event) };

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#startedAt = clock.now();
  }

  /** Counts a request that reached the gateway. A client that disconnects is not an error of the gateway. */
  #ended({ id, status, model, overheadMs }: RequestEnded): void {
    if (overheadMs === null) return;
    const at = this.#clock.now();
    const minute = this.#minuteOf(at);
    minute.requests++;
    if (status < 400 || status === clientLeftStatus) return;
    minute.errors++;
    minute.byStatus.set(status, (minute.byStatus.get(status) ?? 0) + 1);
    this.#last = [{ id, at, model, status }, ...this.#last].slice(0, errorsKept);
  }

  health(): GatewayHealth {
    const now = this.#clock.now();
    this.#forget(now);
    const known = new Map(this.#minutes.map((minute) => [minute.start, minute]));
    const running = Math.floor(now / minuteMs) * minuteMs;
    const byStatus = new Map<number, number>();
    for (const minute of this.#minutes)
      for (const [status, count] of minute.byStatus) byStatus.set(status, (byStatus.get(status) ?? 0) + count);
    const total = (of: "requests" | "errors") => this.#minutes.reduce((sum, minute) => sum + minute[of], 0);
    return {
      since: Math.max(this.#startedAt, now - minutesKept * minuteMs),
      requests: total("requests"),
      errors: total("errors"),
      byStatus,
      minutes: Array.from({ length: minutesShown }, (_, index) => {
        const start = running - (minutesShown - 1 - index) * minuteMs;
        const { requests = 0, errors = 0 } = known.get(start) ?? {};
        return { start, requests, errors };
      }),
      last: this.#last,
    };
  }

  #minuteOf(at: number): Minute {
    const start = Math.floor(at / minuteMs) * minuteMs;
    const last = this.#minutes.at(-1);
    if (last?.start === start) return last;
    this.#forget(at);
    const minute = { start, requests: 0, errors: 0, byStatus: new Map<number, number>() };
    this.#minutes.push(minute);
    return minute;
  }

  #forget(now: number): void {
    const from = now - minutesKept * minuteMs;
    if ((this.#minutes[0]?.start ?? from) < from) this.#minutes = this.#minutes.filter(({ start }) => start >= from);
    this.#last = this.#last.filter(({ at }) => at >= from);
  }
}
