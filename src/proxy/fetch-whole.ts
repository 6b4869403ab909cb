import type { Gateway, GatewayHead, GatewayRequest } from "../ports/gateway.ts";
import type { Stopped, WholeFailure } from "./gateway-failure.ts";

export type WholeAnswer =
  | { readonly ok: true; readonly head: GatewayHead; readonly bytes: Buffer }
  | { readonly ok: false; readonly failure: WholeFailure };

export interface StoppedCall {
  readonly ok: false;
  readonly failure: Stopped;
}

/** A running request whose answer is wanted whole. */
export interface WholeCall {
  readonly answer: Promise<WholeAnswer | StoppedCall>;
  /** Whether bytes of the request may have reached the gateway. */
  readonly sent: boolean;
  /** Ends it now; nothing happens where it has ended. */
  stop(stopped: Stopped): void;
}

/** Sends a request and gathers all of its answer, up to so many bytes. */
export function sendWhole(gateway: Gateway, request: GatewayRequest, bytesMax: number): WholeCall {
  const { promise, resolve } = Promise.withResolvers<WholeAnswer | StoppedCall>();
  const chunks: Buffer[] = [];
  let size = 0;
  let head: GatewayHead | undefined;
  const call = gateway.send(request, {
    head: (received) => (head = received),
    chunk(bytes) {
      size += bytes.length;
      if (size <= bytesMax) return void chunks.push(bytes as Buffer);
      call.abort();
      resolve({ ok: false, failure: { kind: "too_large" } });
    },
    end() {
      if (head !== undefined)
        resolve({
          ok: true,
          head,
          bytes: chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks),
        });
    },
    fail: (failure) =>
      resolve({
        ok: false,
        failure: failure.kind === "silent" ? { ...failure, timeoutMs: request.silenceMs } : failure,
      }),
  });
  return {
    answer: promise,
    get sent() {
      return call.sent;
    },
    stop(failure) {
      call.abort();
      resolve({ ok: false, failure });
    },
  };
}

/** Answers fetched whole are records, not media. */
export const recordBytesMax = 4 * 1024 * 1024;

/** Asks the gateway for something small, and waits for all of it. */
export function fetchWhole(gateway: Gateway, path: string, silenceMs: number): Promise<WholeAnswer> {
  const headers = { accept: "application/json", "accept-encoding": "identity" };
  const { answer } = sendWhole(gateway, { method: "GET", path, headers, body: undefined, silenceMs }, recordBytesMax);
  // Nobody else has the call, so nobody stops it.
  return answer as Promise<WholeAnswer>;
}
