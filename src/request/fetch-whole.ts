import type { StatedError } from "../core/settlement.ts";
import type { Clock } from "../ports/clock.ts";
import { BodyBytes } from "../ports/exchange.ts";
import type { Gateway, GatewayHead, GatewayRequest } from "../ports/gateway.ts";
import { accountFault } from "../wire/account.ts";
import { decoded, decodedBytesMax, isPlain } from "../wire/content-encoding.ts";
import { isObject, parseJson, withoutByteOrderMark, type JsonObject } from "../wire/json.ts";
import { refusesKey, statesKeyRefusal } from "../wire/key-refusal.ts";
import { readEnvelopeError } from "../wire/created-tasks.ts";
import type { ForwardLimits } from "./forward.ts";
import type { KeyWatch } from "./gateway-key.ts";
import type { WholeFailure } from "./gateway-failure.ts";

export type WholeAnswer =
  | { readonly ok: true; readonly head: GatewayHead; readonly bytes: Buffer }
  | { readonly ok: false; readonly failure: WholeFailure };

/** Longest wait for the gateway's answer while a person waits for it, in milliseconds. */
export const personWaitsMsMax = 15_000;

interface WholeCall {
  readonly answer: Promise<WholeAnswer>;
  /** Ends the call now. Has no effect on a call that has ended. */
  stop(): void;
}

/** Sends a request and collects its whole answer, up to `bytesMax` bytes. */
function sendWhole(gateway: Gateway, request: GatewayRequest, bytesMax: number): WholeCall {
  const { promise, resolve } = Promise.withResolvers<WholeAnswer>();
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
      if (head !== undefined) resolve({ ok: true, head, bytes: new BodyBytes(chunks).whole });
    },
    fail: (failure) =>
      resolve({
        ok: false,
        failure: failure.kind === "silent" ? { ...failure, timeoutMs: request.silenceMs } : failure,
      }),
  });
  return {
    answer: promise,
    stop() {
      call.abort();
      resolve({ ok: false, failure: { kind: "reset", message: "Farebox ended the call." } });
    },
  };
}

/**
 * Largest answer about tasks that Farebox keeps in memory, in bytes. The limit is large because records may contain
 * images as text.
 */
export const taskAnswerBytesMax = 32 * 1024 * 1024;

/** Largest record other than a task record, in bytes. Such records contain no media. */
export const recordBytesMax = 4 * 1024 * 1024;

/** Fetches a small record from the gateway. Resolves with the whole answer, or with the reason why there is none. */
export function fetchWhole(gateway: Gateway, path: string, silenceMs: number): Promise<WholeAnswer> {
  return sendWhole(gateway, requestFor(path, silenceMs), recordBytesMax).answer;
}

function requestFor(path: string, silenceMs: number): GatewayRequest {
  const headers = { accept: "application/json", "accept-encoding": "identity" };
  return { method: "GET", path, headers, body: undefined, silenceMs };
}

/** Returns the decoded body without a byte order mark; undefined if it cannot be decoded within `bytesMax` bytes. */
export async function plainBody(
  { head, bytes }: Extract<WholeAnswer, { ok: true }>,
  bytesMax: number,
): Promise<Buffer | undefined> {
  const encoding = head.header("content-encoding");
  const plain = isPlain(encoding) ? bytes : await decoded(bytes, encoding ?? "", bytesMax);
  return plain && withoutByteOrderMark(plain);
}

/** Returns the account record in an answer, parsed and as decoded bytes; undefined if the answer contains none. */
export async function accountRecordIn(
  answer: WholeAnswer,
): Promise<{ readonly body: JsonObject; readonly bytes: Buffer } | undefined> {
  const bytes = answer.ok && answer.head.status === 200 ? await plainBody(answer, recordBytesMax) : undefined;
  const body = bytes && parseJson(bytes.toString("utf8"));
  return bytes && isObject(body) && accountFault(body) === undefined ? { body, bytes } : undefined;
}

/** Returns true if an answer about the account or the models says that the gateway does not accept the key. */
export async function isKeyRefused(
  answer: WholeAnswer,
  faultOf: (record: unknown) => StatedError | string | undefined = accountFault,
): Promise<boolean> {
  if (!answer.ok) return false;
  const { status } = answer.head;
  const plain = await plainBody(answer, recordBytesMax);
  if (status >= 300) return refusesKey(status, plain, true);
  const fault = plain && faultOf(parseJson(plain.toString("utf8")));
  return typeof fault === "object" && statesKeyRefusal(fault, true);
}

interface FetcherDeps {
  readonly gateway: Gateway;
  readonly clock: Clock;
  readonly limits: ForwardLimits;
  readonly keyWatch: Pick<KeyWatch, "setRefused">;
}

/** Fetches task records for Farebox itself, not for a client. */
export class RecordFetcher {
  readonly #deps: FetcherDeps;
  readonly #running = new Set<WholeCall>();
  #stopped = false;

  constructor(deps: FetcherDeps) {
    this.#deps = deps;
  }

  /** Returns the decoded body of a successful answer; undefined otherwise. */
  async fetch(path: string): Promise<Buffer | undefined> {
    if (this.#stopped) return undefined;
    const { gateway, clock, limits, keyWatch } = this.#deps;
    const call = sendWhole(gateway, requestFor(path, limits.silenceMs), taskAnswerBytesMax);
    const timer = clock.after(limits.wholeMs, () => call.stop());
    this.#running.add(call);
    const answer = await call.answer;
    timer.cancel();
    this.#running.delete(call);
    if (!answer.ok) return undefined;
    const { status } = answer.head;
    const plain = await plainBody(answer, status < 300 ? decodedBytesMax : recordBytesMax);
    const error = status < 300 && plain !== undefined ? readEnvelopeError(plain) : undefined;
    if (error === undefined ? refusesKey(status, plain, true) : statesKeyRefusal(error, true))
      keyWatch.setRefused(true);
    else if (status < 300 && error === undefined) keyWatch.setRefused(false);
    return status < 300 ? plain : undefined;
  }

  /** Ends every running call now. Later fetches return undefined at once. */
  stopAll(): void {
    this.#stopped = true;
    for (const call of this.#running) call.stop();
  }
}
