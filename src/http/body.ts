import type { IncomingMessage } from "node:http";
import type { Refusal } from "../core/refusals.ts";
import type { BodyResult } from "../ports/exchange.ts";

/** Memory for the bodies of all requests together. */
export class BodyMemory {
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

/** Reads a request's body once and whole, within one request's limit and the memory of all. */
export function readBody(request: IncomingMessage, limitBytes: number, memory: BodyMemory): Promise<BodyResult> {
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding !== "" && encoding.toLowerCase() !== "identity") {
    return refused({ code: "unsupported_encoding", encoding });
  }
  const stated = Number(request.headers["content-length"] ?? 0);
  if (stated > limitBytes) return refused({ code: "request_too_large", limitBytes });
  if (!memory.take(stated)) return refused(overloaded);

  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let taken = stated;
    let over = false;
    const finish = (result: BodyResult): void => {
      if (over) return;
      over = true;
      if (!result.ok) memory.give(taken);
      resolve(result);
    };
    request.on("data", (chunk: Buffer) => {
      if (over) return;
      size += chunk.length;
      if (size > limitBytes) return finish({ ok: false, refusal: { code: "request_too_large", limitBytes } });
      if (size > taken) {
        if (!memory.take(size - taken)) return finish({ ok: false, refusal: overloaded });
        taken = size;
      }
      chunks.push(chunk);
    });
    request.on("end", () => {
      const bytes = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
      finish({ ok: true, bytes, release: () => memory.give(taken) });
    });
    request.on("error", () => finish({ ok: false, refusal: null }));
    request.on("close", () => finish({ ok: false, refusal: null }));
  });
}

const overloaded: Refusal = {
  code: "overloaded",
  message: "Too many request bodies are held at once; FAREBOX_BODY_MEMORY says how many bytes may be.",
};

async function refused(refusal: Refusal): Promise<BodyResult> {
  return { ok: false, refusal };
}
