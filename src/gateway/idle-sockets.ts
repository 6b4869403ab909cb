import type { Socket } from "node:net";
import type { Clock } from "../ports/clock.ts";

/**
 * Time for which a connection may be idle and still be used again, in milliseconds, if the gateway states none. Common
 * servers close idle connections after 5 s or more.
 */
export const idleSocketMs = 4_000;

/** Longest time for which a connection may be idle and still be used again, in milliseconds. */
export const idleSocketMsMax = 600_000;

/** Part of the gateway's stated time that is not used, in milliseconds. A request needs time to reach the gateway. */
export const marginMs = 1_000;

/** Shortest limit that resets lead to, in milliseconds. */
const learnedMsMin = 1_000;

/** Time for which a limit that a reset led to applies, in milliseconds. */
const learnedForMs = 600_000;

interface Kept {
  /** Limit of the last answer, in milliseconds. */
  readonly limitMs: number;
  /** Undefined until the answer has ended. */
  idleSince?: Instant | undefined;
}

interface Instant {
  readonly now: number;
  readonly monotonic: number;
}

/**
 * Limits the time for which connections to the gateway may be idle and still be used again. A request fails if the
 * gateway has closed its connection, or closes it while the request is on its way.
 */
export class IdleSockets {
  readonly defaultMs: number;
  readonly #clock: Clock;
  readonly #kept = new WeakMap<Socket, Kept>();
  #learned: { readonly limitMs: number; readonly at: number } | undefined;

  constructor(clock: Clock, defaultMs = idleSocketMs) {
    this.#clock = clock;
    this.defaultMs = defaultMs;
  }

  /** Notes that a connection is chosen for a request. */
  taken(socket: Socket): SocketUse {
    const idleSince = this.#kept.get(socket)?.idleSince;
    return new SocketUse(socket, idleSince === undefined ? null : this.#msSince(idleSince));
  }

  /** Notes the answer's header `keep-alive`, which may state how long the gateway keeps the connection. */
  answered(socket: Socket, keepAlive: string | undefined): void {
    const seconds = keepAlive && /\btimeout\s*=\s*"?(\d+)/i.exec(keepAlive)?.[1];
    const limitMs = seconds ? Math.min(Number(seconds) * 1_000 - marginMs, idleSocketMsMax) : this.defaultMs;
    this.#kept.set(socket, { limitMs });
  }

  /** Notes that a connection is idle. Returns false if it must be closed now. */
  freed(socket: Socket): boolean {
    const kept = this.#kept.get(socket);
    if (kept === undefined) return false;
    kept.idleSince = { now: this.#clock.now(), monotonic: this.#clock.monotonic() };
    return kept.limitMs > 0;
  }

  /** Returns false for a connection that has been idle for too long. */
  isUsable(socket: Socket): boolean {
    const { idleSince, limitMs } = this.#kept.get(socket) ?? {};
    if (idleSince === undefined || limitMs === undefined) return true;
    return this.#msSince(idleSince) < Math.min(limitMs, this.#learnedMs());
  }

  /** Halves the limit after a reset of a connection that had been idle for this long. */
  wasReset(idleMs: number): void {
    const limitMs = Math.min(Math.max(idleMs / 2, learnedMsMin), this.#learnedMs());
    this.#learned = { limitMs, at: this.#clock.monotonic() };
  }

  #learnedMs(): number {
    if (this.#learned === undefined) return Infinity;
    return this.#clock.monotonic() - this.#learned.at < learnedForMs ? this.#learned.limitMs : Infinity;
  }

  /** Returns the milliseconds since an instant. The monotonic clock may stop while the machine is suspended. */
  #msSince({ now, monotonic }: Instant): number {
    return Math.max(this.#clock.monotonic() - monotonic, this.#clock.now() - now);
  }
}

/** Use of a connection for one request. */
export class SocketUse {
  readonly socket: Socket;
  /** Time for which the connection was idle before, in milliseconds; null for a new connection. */
  readonly idleMs: number | null;
  readonly #bytesRead: number;
  #isUnwritten = true;

  constructor(socket: Socket, idleMs: number | null) {
    this.socket = socket;
    this.idleMs = idleMs;
    this.#bytesRead = socket.bytesRead;
  }

  /** Notes that the engine writes the request in this turn of the event loop. */
  writing(): void {
    const { socket } = this;
    if (this.idleMs === null) return;
    // No event of the connection is handled between the write and the next tick.
    process.nextTick(() => {
      const error: NodeJS.ErrnoException | null = socket.errored;
      this.#isUnwritten = error?.syscall === "write";
    });
  }

  /** True if the gateway has sent nothing since the connection was chosen, not even an interim response. */
  get isUnanswered(): boolean {
    return this.socket.bytesRead === this.#bytesRead;
  }

  /**
   * True if the idle connection broke before the engine wrote to it, or if the system accepted no byte because the
   * gateway had reset it. This alone shows that the gateway has read nothing: bytes that the system accepted may have
   * arrived, even if no answer comes back.
   */
  get isUnwritten(): boolean {
    return this.#isUnwritten;
  }
}
