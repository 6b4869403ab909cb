import type { IncomingMessage } from "node:http";
import type { Refusal } from "../../core/refusals.ts";
import type { Clock, Timer } from "../../ports/clock.ts";
import { BodyBytes, type BodyResult } from "../../ports/exchange.ts";
import type { Socket } from "node:net";

/** Memory that the bodies of all requests share. */
export interface BodyMemory {
  /**
   * Acquires this number of bytes and returns true, or acquires nothing and returns false. Returns a promise if another
   * process must be asked.
   */
  acquire(bytes: number): boolean | Promise<boolean>;
  release(bytes: number): void;
}

/** Memory of a fixed size, counted in this process. */
export class BodyAllowance implements BodyMemory {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  acquire(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/** Limits for reading a body. */
export interface BodyRules {
  /** Largest body of one request, in bytes. */
  readonly limitBytes: number;
  /** Memory for the bodies of all requests. */
  readonly memory: BodyMemory;
  readonly clock: Clock;
}

/**
 * Reads the whole body of a request, within the limit of one request and the memory for all. Refuses a body that
 * arrives too slowly.
 */
export function readBody(request: IncomingMessage, rules: BodyRules): Promise<BodyResult> {
  const { limitBytes, memory } = rules;
  const refusal = headRefusal(request, limitBytes);
  if (refusal !== undefined) return refused(refusal);
  const stated = Number(request.headers["content-length"] ?? 0);
  const read = (isAcquired: boolean) => (isAcquired ? readAll(request, stated, rules) : refused(overloaded));
  const acquiring = memory.acquire(stated);
  return typeof acquiring === "boolean" ? read(acquiring) : acquiring.then(read);
}

/**
 * Average size of a body's pieces below which they are joined, in bytes. Engines write each piece separately, without
 * pausing for other requests in between.
 */
const pieceBytesMin = 4096;

function inFewPieces(pieces: readonly Buffer[], size: number): readonly Buffer[] {
  return pieces.length > 1 && pieces.length * pieceBytesMin > size ? [Buffer.concat(pieces, size)] : pieces;
}

/** Reads the body. The memory for its stated size is already acquired. */
function readAll(
  request: IncomingMessage,
  stated: number,
  { limitBytes, memory, clock }: BodyRules,
): Promise<BodyResult> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let acquired = stated;
    let isDone = false;
    const finish = (result: BodyResult): void => {
      if (isDone) return;
      isDone = true;
      pace?.stop();
      if (!result.ok) memory.release(acquired);
      resolve(result);
    };
    // Most bodies arrive completely with the head, so they need no pace check.
    const hasArrived = request.complete || (stated > 0 && request.readableLength >= stated);
    const pace = hasArrived
      ? undefined
      : new BodyPace(clock, () => finish({ ok: false, refusal: { code: "request_timeout" } }));
    const grow = (bytes: number, isAcquired: boolean): void => {
      if (!isAcquired) return finish({ ok: false, refusal: overloaded });
      if (isDone) memory.release(bytes);
      else acquired += bytes;
    };
    request.on("data", (chunk: Buffer) => {
      if (isDone) return;
      size += chunk.length;
      pace?.received(chunk.length);
      if (size > limitBytes) return finish({ ok: false, refusal: { code: "request_too_large", limitBytes } });
      chunks.push(chunk);
      const more = size - acquired;
      if (more <= 0) return;
      const acquiring = memory.acquire(more);
      if (typeof acquiring === "boolean") return grow(more, acquiring);
      pace?.pause();
      request.pause();
      void acquiring.then((isAcquired) => {
        grow(more, isAcquired);
        if (!isDone) pace?.resume();
        request.resume();
      });
    });
    request.on("end", () =>
      finish({ ok: true, bytes: new BodyBytes(inFewPieces(chunks, size)), release: () => memory.release(acquired) }),
    );
    request.on("error", () => finish({ ok: false, refusal: null }));
    request.on("close", () => finish({ ok: false, refusal: null }));
    // The client may have disconnected while the memory was requested.
    if (request.destroyed) finish({ ok: false, refusal: null });
  });
}

/** Returns the refusal of a body that its headers already rule out; undefined if the body can be read. */
function headRefusal({ headers }: IncomingMessage, limitBytes: number): Refusal | undefined {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "" && encoding.toLowerCase() !== "identity") {
    return { code: "unsupported_encoding", encoding };
  }
  return Number(headers["content-length"] ?? 0) > limitBytes ? { code: "request_too_large", limitBytes } : undefined;
}

const overloaded: Refusal = {
  code: "overloaded",
  message: "The memory for request bodies (FAREBOX_BODY_MEMORY) is full; try again later.",
};

async function refused(refusal: Refusal): Promise<BodyResult> {
  return { ok: false, refusal };
}

/**
 * Smallest number of bytes of a body that must arrive in each period. Even a phone on a bad connection sends a hundred
 * times as much.
 */
export const bodyPace = { ms: 60_000, bytes: 1024 } as const;

/**
 * Watches the pace of a body while it is read. Calls `onTooSlow` if the body arrives too slowly; otherwise such a body
 * could keep its memory and connection for an hour. Periods with a pause do not count, because Farebox did not read
 * then.
 */
export class BodyPace {
  readonly #clock: Clock;
  readonly #onTooSlow: () => void;
  #bytes = 0;
  #paused = false;
  /** True if Farebox paused reading during the current period. */
  #wasPaused = false;
  #timer: Timer;

  constructor(clock: Clock, onTooSlow: () => void) {
    this.#clock = clock;
    this.#onTooSlow = onTooSlow;
    this.#timer = this.#start();
  }

  received(bytes: number): void {
    this.#bytes += bytes;
  }

  pause(): void {
    this.#paused = true;
    this.#wasPaused = true;
  }

  resume(): void {
    this.#paused = false;
  }

  stop(): void {
    this.#timer.cancel();
  }

  #start(): Timer {
    return this.#clock.after(bodyPace.ms, () => {
      if (!this.#wasPaused && this.#bytes < bodyPace.bytes) return this.#onTooSlow();
      this.#bytes = 0;
      this.#wasPaused = this.#paused;
      this.#timer = this.#start();
    });
  }
}

/**
 * Limits on reading the remaining body after a refusal. If the client still writes beyond one of them, its connection
 * is reset.
 */
export const lingering = { ms: 30_000, quietMs: 5_000, bytes: 256 * 1024 ** 2, checkMs: 1_000 } as const;

const lingeringSockets = new WeakSet<Socket>();

/** Returns true for a connection that `lingerAfterAnswer` ends. Farebox answers no further requests on it. */
export function isLingering(socket: Socket): boolean {
  return lingeringSockets.has(socket);
}

/**
 * Lets a refused client read its answer while it still writes. When the answer is sent, closes Farebox's side of the
 * connection and discards the remaining body. Closing with unread bytes would reset the connection: the client would
 * see EPIPE and no answer. Must be called before the answer ends, so that Node closes the connection.
 */
export function lingerAfterAnswer(request: IncomingMessage, clock: Clock): void {
  const { socket } = request;
  // Node calls `destroySoon` when it has passed the connection's final answer to the operating system.
  socket.destroySoon = () => {
    delete (socket as Partial<Socket>).destroySoon;
    lingeringSockets.add(socket);
    socket.end();
    if (request.complete || request.destroyed) return void socket.destroySoon();
    // A client that reads has the refusal now, so the remaining body is discarded.
    request.removeAllListeners("data");
    request.resume();
    request.once("end", () => socket.destroySoon());
    const stop = watchRest(socket, clock);
    socket.once("close", stop);
  };
}

/** Ends the connection at the first limit that is reached. Returns a function that stops watching. */
function watchRest(socket: Socket, clock: Clock): () => void {
  const start = socket.bytesRead;
  let last = start;
  let quietMs = 0;
  let totalMs = 0;
  let timer = clock.after(lingering.checkMs, check);
  function check(): void {
    quietMs = socket.bytesRead === last ? quietMs + lingering.checkMs : 0;
    last = socket.bytesRead;
    totalMs += lingering.checkMs;
    if (quietMs >= lingering.quietMs || totalMs >= lingering.ms || last - start > lingering.bytes) socket.destroy();
    else timer = clock.after(lingering.checkMs, check);
  }
  return () => timer.cancel();
}
