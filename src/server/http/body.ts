import type { IncomingMessage } from "node:http";
import type { Refusal } from "../../core/refusals.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BodyOpening, BodyReceiver, BodyResult, OpenBody } from "../../ports/exchange.ts";
import { BodyPace } from "./body-pace.ts";

/** Memory that the bodies of all requests share. */
export interface BodyMemory {
  /**
   * Takes this number of bytes and returns true, or takes none and returns false. Returns a promise if another process must
   * be asked.
   */
  take(bytes: number): boolean | Promise<boolean>;
  give(bytes: number): void;
}

/** Memory of a fixed size, counted in this process. */
export class BodyAllowance implements BodyMemory {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  give(bytes: number): void {
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
 * Reads the whole body of a request, within the limit of one request and the memory for all. Refuses a body that arrives too
 * slowly.
 */
export function readBody(request: IncomingMessage, rules: BodyRules): Promise<BodyResult> {
  const { limitBytes, memory } = rules;
  const unfit = unfitness(request, limitBytes);
  if (unfit !== undefined) return refused(unfit);
  const stated = Number(request.headers["content-length"] ?? 0);
  const read = (isTaken: boolean) => (isTaken ? readAll(request, stated, rules) : refused(overloaded));
  const taking = memory.take(stated);
  return typeof taking === "boolean" ? read(taking) : taking.then(read);
}

/** Reads the body. The memory for its stated size is already taken. */
function readAll(
  request: IncomingMessage,
  stated: number,
  { limitBytes, memory, clock }: BodyRules,
): Promise<BodyResult> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let taken = stated;
    let over = false;
    const finish = (result: BodyResult): void => {
      if (over) return;
      over = true;
      pace?.stop();
      if (!result.ok) memory.give(taken);
      resolve(result);
    };
    // Most bodies arrive completely with the head, so they need no watching.
    const isHere = request.complete || (stated > 0 && request.readableLength >= stated);
    const pace = isHere
      ? undefined
      : new BodyPace(clock, () => finish({ ok: false, refusal: { code: "request_timeout" } }));
    const grow = (bytes: number, isTaken: boolean): void => {
      if (!isTaken) return finish({ ok: false, refusal: overloaded });
      if (over) memory.give(bytes);
      else taken += bytes;
    };
    request.on("data", (chunk: Buffer) => {
      if (over) return;
      size += chunk.length;
      pace?.came(chunk.length);
      if (size > limitBytes) return finish({ ok: false, refusal: { code: "request_too_large", limitBytes } });
      chunks.push(chunk);
      const more = size - taken;
      if (more <= 0) return;
      const taking = memory.take(more);
      if (typeof taking === "boolean") return grow(more, taking);
      pace?.pause();
      request.pause();
      void taking.then((isTaken) => {
        grow(more, isTaken);
        if (!over) pace?.resume();
        request.resume();
      });
    });
    request.on("end", () => {
      const bytes = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
      finish({ ok: true, bytes, release: () => memory.give(taken) });
    });
    request.on("error", () => finish({ ok: false, refusal: null }));
    request.on("close", () => finish({ ok: false, refusal: null }));
    // The client may have disconnected while the memory was requested.
    if (request.destroyed) finish({ ok: false, refusal: null });
  });
}

/** Returns the refusal of a body by its headers; undefined if the body can be read. */
function unfitness({ headers }: IncomingMessage, limitBytes: number): Refusal | undefined {
  const encoding = headers["content-encoding"];
  if (encoding !== undefined && encoding !== "" && encoding.toLowerCase() !== "identity") {
    return { code: "unsupported_encoding", encoding };
  }
  return Number(headers["content-length"] ?? 0) > limitBytes ? { code: "request_too_large", limitBytes } : undefined;
}

/** Memory for a body that is passed on while it arrives, in bytes: its first bytes and those in transit. */
const passingBytes = 128 * 1024;

/**
 * Opens a body that is passed on while it arrives. Its memory does not grow with its size, and is released when the request
 * closes.
 */
export function openBody(request: IncomingMessage, rules: BodyRules): BodyOpening | Promise<BodyOpening> {
  const { limitBytes, memory } = rules;
  const unfit = unfitness(request, limitBytes);
  if (unfit !== undefined) return { ok: false, refusal: unfit };
  const body = new RequestBody(request, rules);
  const share = Math.min(body.length ?? passingBytes, passingBytes);
  const open = (isTaken: boolean): BodyOpening => {
    if (!isTaken) return { ok: false, refusal: overloaded };
    if (request.closed) memory.give(share);
    else request.once("close", () => memory.give(share));
    return { ok: true, body };
  };
  const taking = memory.take(share);
  return typeof taking === "boolean" ? open(taking) : taking.then(open);
}

class RequestBody implements OpenBody {
  readonly length: number | null;
  readonly #request: IncomingMessage;
  readonly #limitBytes: number;
  readonly #clock: Clock;
  #pace: BodyPace | undefined;
  #bytes = 0;
  #over = false;

  constructor(request: IncomingMessage, { limitBytes, clock }: BodyRules) {
    const stated = request.headers["content-length"];
    // A request without a length and without chunks has no body (RFC 9112, 6.3).
    this.length = stated !== undefined ? Number(stated) : request.headers["transfer-encoding"] === undefined ? 0 : null;
    this.#request = request;
    this.#limitBytes = limitBytes;
    this.#clock = clock;
  }

  read(receiver: BodyReceiver): void {
    const finish = (tell: () => void): void => {
      if (this.#over) return;
      this.#over = true;
      this.#pace?.stop();
      tell();
    };
    this.#pace = new BodyPace(this.#clock, () => finish(() => receiver.fail({ code: "request_timeout" })));
    this.#request.on("data", (chunk: Buffer) => {
      if (this.#over) return;
      this.#bytes += chunk.length;
      this.#pace?.came(chunk.length);
      if (this.#bytes <= this.#limitBytes) receiver.chunk(chunk);
      else finish(() => receiver.fail({ code: "request_too_large", limitBytes: this.#limitBytes }));
    });
    this.#request.on("end", () => finish(() => receiver.end()));
    this.#request.on("error", () => finish(() => receiver.fail(null)));
    this.#request.on("close", () => finish(() => receiver.fail(null)));
    // The client may have disconnected while the memory was requested.
    if (this.#request.destroyed) finish(() => receiver.fail(null));
  }

  pause(): void {
    if (this.#over) return;
    this.#pace?.pause();
    this.#request.pause();
  }

  resume(): void {
    this.#pace?.resume();
    this.#request.resume();
  }
}

const overloaded: Refusal = {
  code: "overloaded",
  message: "Too many request bodies are held at once; FAREBOX_BODY_MEMORY says how many bytes may be.",
};

async function refused(refusal: Refusal): Promise<BodyResult> {
  return { ok: false, refusal };
}
