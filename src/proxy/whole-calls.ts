import type { Clock } from "../ports/clock.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { Gateway, GatewayHead } from "../ports/gateway.ts";
import { decoded, decodedBytesMax, isPlain } from "../wire/encoding.ts";
import { answerHeaders } from "../wire/headers.ts";
import { sendWhole, type StoppedCall, type WholeAnswer, type WholeCall } from "./fetch-whole.ts";
import type { ForwardLimits } from "./forward.ts";
import { clientLeft, shutdown, timeLimit } from "./gateway-failure.ts";
import { maskedHeaders, type Mask } from "./mask.ts";

/** A request that passes through as it is, and whose answer is wanted whole before its client gets it. */
export interface WholeCallParams {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer | undefined;
  /** The client; it is not waited for where nothing was sent. Null for our own requests. */
  readonly exchange: Exchange | null;
}

/** Its answer, readable: `text` is the body as plain bytes, undefined where nobody can read it. */
export type Sent = (
  | (Extract<WholeAnswer, { ok: true }> & { readonly text: Buffer | undefined })
  | Extract<WholeAnswer | StoppedCall, { ok: false }>
) & { readonly sent: boolean };

/** Largest answer about tasks that is held, in bytes: records may carry images as text. */
export const taskAnswerBytesMax = 32 * 1024 * 1024;

/** Sends requests whose answers are held whole. */
export interface WholeCalls {
  send(params: WholeCallParams): Promise<Sent>;
  /** Ends every running call now, and those that come later. */
  stopAll(): void;
}

/**
 * The answer is read to its end when its client has left: what was sent may be billed, and only the answer says so. What
 * was not sent yet ends with its client.
 */
export function createWholeCalls(deps: {
  readonly gateway: Gateway;
  readonly clock: Clock;
  readonly limits: ForwardLimits;
}): WholeCalls {
  const { gateway, clock, limits } = deps;
  const running = new Set<WholeCall>();
  let stopped = false;
  return {
    async send({ exchange, ...request }) {
      if (stopped) return { ok: false, failure: shutdown, sent: false };
      const call = sendWhole(gateway, { ...request, silenceMs: limits.silenceMs }, taskAnswerBytesMax);
      const timer = clock.after(limits.wholeMs, () => call.stop(timeLimit(limits.wholeMs)));
      running.add(call);
      exchange?.onClientGone(() => {
        if (!call.sent) call.stop(clientLeft);
      });
      const answer = await call.answer;
      timer.cancel();
      running.delete(call);
      if (!answer.ok) return { ...answer, sent: call.sent };
      const encoding = answer.head.header("content-encoding");
      const text = isPlain(encoding) ? answer.bytes : await decoded(answer.bytes, encoding ?? "", decodedBytesMax);
      return { ...answer, text, sent: true };
    },
    stopAll() {
      stopped = true;
      for (const call of running) call.stop(shutdown);
    },
  };
}

/**
 * Gives the client a whole answer: the gateway's bytes, except where they repeat its credential or `change` makes other
 * bytes of them. What was compressed and is changed leaves plain.
 */
export function passWhole(
  exchange: Exchange,
  { head, bytes, text }: { readonly head: GatewayHead; readonly bytes: Buffer; readonly text: Buffer | undefined },
  mask: Mask,
  change: (text: Buffer) => Buffer = (same) => same,
): void {
  const shown = text === undefined ? undefined : mask(change(text));
  const changed = shown !== undefined && shown !== text;
  const headers = maskedHeaders(answerHeaders(head.rawHeaders), mask).filter(([name]) => {
    const lower = name.toLowerCase();
    return lower !== "content-length" && !(changed && lower === "content-encoding");
  });
  exchange.answer(head.status, headers, changed ? shown : bytes);
}
