import type { IncomingMessage } from "node:http";
import type { Refusal } from "../../core/refusals.ts";
import type { Clock } from "../../ports/clock.ts";
import { BodyBytes, type BodyResult } from "../../ports/exchange.ts";
import { decodeWhole, isDecodable, isPlain } from "../../wire/content-encoding.ts";
import type { Socket } from "node:net";
import type { BodyMemory } from "./body-memory.ts";
import { BodyPace } from "./body-pace.ts";

/** Limits for reading a body. */
export interface BodyRules {
  /** Largest body of one request, in bytes. */
  readonly limitBytes: number;
  /** Memory of this body. */
  readonly memory: BodyMemory;
  readonly clock: Clock;
}

/**
 * Reads the whole body of a request, within the limit of one request and the memory for all. Refuses a body that
 * arrives too slowly. Decodes a body with a content encoding.
 */
export function readBody(request: IncomingMessage, rules: BodyRules): Promise<BodyResult> {
  const encoding = request.headers["content-encoding"];
  const isEncoded = encoding !== undefined && !isPlain(encoding);
  if (isEncoded && !isDecodable(encoding)) return refused({ code: "unsupported_encoding", encoding });
  if (statedLength(request) > rules.limitBytes)
    return refused({ code: "request_too_large", limitBytes: rules.limitBytes });
  if (!isEncoded) return readAll(request, rules, false);
  return readAll(request, rules, true).then((read) =>
    read.ok && read.bytes.length > 0 ? decodeInTurn(read.bytes, encoding, rules) : read,
  );
}

/**
 * Average size of a body's pieces below which they are joined, in bytes. Engines write each piece separately, without
 * pausing for other requests in between.
 */
const pieceBytesMin = 4096;

/**
 * Number of pieces that are joined while a body arrives, if they are small. A piece of one byte occupies hundreds of
 * bytes.
 */
const piecesMax = 1024;

function inFewPieces(pieces: readonly Buffer[], size: number): readonly Buffer[] {
  return pieces.length > 1 && pieces.length * pieceBytesMin > size ? [Buffer.concat(pieces, size)] : pieces;
}

/**
 * Largest number of bytes that a body acquires ahead of its arrival. It acquires at most as many as have arrived, and
 * never more than its stated length, so that a body that is stated but not sent occupies nothing.
 */
const aheadBytesMax = 1024 ** 2;

/** Reads the body as it was sent. `isEncoded`: true if it must be decoded, so that it is not complete yet. */
function readAll(request: IncomingMessage, { limitBytes, memory, clock }: BodyRules, isEncoded: boolean) {
  const stated = statedLength(request);
  return new Promise<BodyResult>((resolve) => {
    const chunks: Buffer[] = [];
    /** Number of chunks that were joined, and of bytes in them. */
    let joined = 0;
    let joinedBytes = 0;
    let size = 0;
    // The listeners below stay until the answer is complete. Until then, they must not keep any bytes.
    let whenDone: typeof resolve | null = resolve;
    const finish = (result: BodyResult): void => {
      if (whenDone === null) return;
      whenDone(result);
      whenDone = null;
      pace?.stop();
      if (result.ok) return;
      chunks.length = 0;
      memory.release();
    };
    const fail = (refusal: Refusal | null): void => finish({ ok: false, refusal });
    // Most bodies arrive completely with the head, so they need no pace check.
    const hasArrived = request.complete || (stated > 0 && request.readableLength >= stated);
    const pace = hasArrived ? undefined : new BodyPace(clock, () => fail({ code: "request_timeout" }), stated);
    if (!hasArrived) memory.arrives(() => fail(tooMuchOfOneKey));
    request.on("data", (chunk: Buffer) => {
      if (whenDone === null) return;
      size += chunk.length;
      pace?.received(chunk.length);
      if (size > limitBytes) return fail({ code: "request_too_large", limitBytes });
      chunks.push(chunk);
      if (chunks.length - joined === piecesMax) {
        chunks.push(...inFewPieces(chunks.splice(joined), size - joinedBytes));
        joined = chunks.length;
        joinedBytes = size;
      }
      if (size <= memory.bytes) return;
      const ahead = Math.min(size, aheadBytesMax, (stated > 0 ? stated : limitBytes) - size);
      const acquiring = memory.acquire(size - memory.bytes, ahead);
      if (acquiring === true) return;
      if (acquiring === false) return fail(overloaded);
      pace?.pause();
      request.pause();
      void acquiring.then((isAcquired) => {
        if (!isAcquired) fail(overloaded);
        if (whenDone !== null) pace?.resume();
        request.resume();
      });
    });
    request.on("end", () => {
      if (whenDone === null) return;
      if (!isEncoded) memory.arrived(size);
      const all = chunks.splice(0);
      const pieces = isEncoded ? all : inFewPieces(all, size);
      finish({ ok: true, bytes: new BodyBytes(pieces), release: () => memory.release() });
    });
    request.on("error", () => fail(null));
    request.on("close", () => fail(null));
    // The client may have disconnected before.
    if (request.destroyed) fail(null);
  });
}

function statedLength({ headers }: IncomingMessage): number {
  return Number(headers["content-length"] ?? 0);
}

/** Decodings in progress, by the owner of the body. */
const decodings = new Map<string | null, Promise<unknown>>();

/**
 * Decodes a body. The bodies of a key are decoded one after another, because a few kilobytes can decode to a very large
 * body, and a decoder needs up to 8 MB itself.
 */
function decodeInTurn(bytes: BodyBytes, encoding: string, rules: BodyRules): Promise<BodyResult> {
  const { memory } = rules;
  const { owner } = memory;
  let waiting: BodyBytes | null = bytes;
  memory.arrives(() => {
    waiting = null;
    memory.release();
  });
  const result = (decodings.get(owner) ?? Promise.resolve()).then(() =>
    waiting === null ? refused(tooMuchOfOneKey) : decodeBody(waiting, encoding, rules),
  );
  decodings.set(owner, result);
  const forget = (): void => {
    if (decodings.get(owner) === result) decodings.delete(owner);
  };
  void result.then(forget, forget);
  return result;
}

/**
 * Decodes a body. Until it is decoded, it occupies the bytes of both forms, but at most as many as the limit of a body.
 */
async function decodeBody(body: BodyBytes, encoding: string, { limitBytes, memory }: BodyRules): Promise<BodyResult> {
  // The functions below stay until the request ends. Until then, they must not keep any bytes.
  const { length, whole } = body;
  let refusal: Refusal | undefined;
  const stop = (because: Refusal): false => {
    refusal ??= because;
    memory.release();
    return false;
  };
  memory.arrives(() => stop(tooMuchOfOneKey));
  const pieces: Buffer[] = [];
  let size = 0;
  const keep = (piece: Buffer, isAcquired: boolean): boolean => {
    if (refusal !== undefined) return false;
    if (!isAcquired) return stop(overloaded);
    pieces.push(piece);
    return true;
  };
  const ended = await decodeWhole(whole, encoding, (piece) => {
    if (refusal !== undefined) return false;
    size += piece.length;
    if (size > limitBytes) return stop({ code: "request_too_large", limitBytes, isDecoded: true });
    const missing = Math.min(length + size, limitBytes) - memory.bytes;
    if (missing <= 0) return keep(piece, true);
    const acquiring = memory.acquire(missing, Math.min(size, aheadBytesMax, limitBytes - size));
    return typeof acquiring === "boolean"
      ? keep(piece, acquiring)
      : acquiring.then((isAcquired) => keep(piece, isAcquired));
  });
  if (ended === "broken") stop(undecodable(encoding));
  if (refusal !== undefined) return { ok: false, refusal };
  memory.arrived(size);
  return { ok: true, bytes: new BodyBytes(inFewPieces(pieces.splice(0), size)), release: () => memory.release() };
}

const overloaded: Refusal = {
  code: "overloaded",
  message: "The memory for request bodies (FAREBOX_BODY_MEMORY) is full; try again later.",
};

const tooMuchOfOneKey: Refusal = {
  code: "overloaded",
  message:
    "The memory for request bodies is full, and the bodies of this key use more than a quarter of FAREBOX_BODY_MEMORY; send fewer large bodies at the same time, or try again later.",
};

function undecodable(encoding: string): Refusal {
  const message = `The request body could not be decoded; content-encoding was '${encoding}'. Send it whole and in this encoding, or without content-encoding.`;
  return { code: "invalid_request", param: null, message };
}

async function refused(refusal: Refusal): Promise<BodyResult> {
  return { ok: false, refusal };
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
