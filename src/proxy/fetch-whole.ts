import type { Gateway, GatewayFailure, GatewayHead } from "../ports/gateway.ts";

export type WholeAnswer =
  | { readonly ok: true; readonly head: GatewayHead; readonly bytes: Buffer }
  | { readonly ok: false; readonly failure: WholeFailure };

export type WholeFailure =
  | Exclude<GatewayFailure, { readonly kind: "silent" }>
  | { readonly kind: "silent"; readonly timeoutMs: number }
  | { readonly kind: "too_large" };

/** Answers fetched whole are records, not media. */
const bytesMax = 4 * 1024 * 1024;

/** Asks the gateway for something small, and waits for all of it. */
export function fetchWhole(gateway: Gateway, path: string, silenceMs: number): Promise<WholeAnswer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let size = 0;
    let head: GatewayHead | undefined;
    const headers = { accept: "application/json", "accept-encoding": "identity" };
    const call = gateway.send(
      { method: "GET", path, headers, body: undefined, silenceMs },
      {
        head: (received) => (head = received),
        chunk(bytes) {
          size += bytes.length;
          if (size <= bytesMax) return void chunks.push(bytes as Buffer);
          call.abort();
          resolve({ ok: false, failure: { kind: "too_large" } });
        },
        end() {
          if (head !== undefined) resolve({ ok: true, head, bytes: Buffer.concat(chunks) });
        },
        fail: (failure) =>
          resolve({ ok: false, failure: failure.kind === "silent" ? { ...failure, timeoutMs: silenceMs } : failure }),
      },
    );
  });
}
