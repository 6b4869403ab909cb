import type { Worker } from "node:worker_threads";
import type { Encoding } from "../../ports/catalogue.ts";
import type { Log } from "../../ports/log.ts";
import type { TokenCount, TokenCounter } from "../../ports/token-counter.ts";
import { tokenInput } from "./chat-template.ts";
import { CountingThread, startCountingThread } from "./counting-thread.ts";

export interface TokenCounterOptions {
  /** Largest number of calls that may wait for the worker at once; 10,000 by default. */
  readonly queueItemsMax?: number;
  /** Largest memory of the texts that wait for the worker, as in `CountingThreadOptions`; 64 MiB by default. */
  readonly queueBytesMax?: number;
  /** Receives a line each time the worker ends unexpectedly. */
  readonly log?: Pick<Log, "warn">;
  /** Starts the worker. Only tests replace it. */
  readonly startThread?: () => Worker;
}

/** Returns a counter that uses tiktoken on a worker thread. */
export function createTokenCounter(options: TokenCounterOptions = {}): TokenCounter & AsyncDisposable {
  const thread = new CountingThread({
    queueItemsMax: options.queueItemsMax ?? 10_000,
    queueBytesMax: options.queueBytesMax ?? 64 * 1024 * 1024,
    startThread: options.startThread ?? startCountingThread,
    onThreadFailure: (error) =>
      options.log?.warn({ err: error }, "the thread that counts tokens has ended; another one replaces it"),
  });

  const countAll = async (
    { texts, escaped }: { readonly texts: readonly string[]; readonly escaped: readonly string[] },
    encoding: Encoding,
    atMost: number,
  ): Promise<TokenCount> => {
    const plain = texts.filter((text) => text !== "");
    const filled = [...plain, ...escaped.filter((text) => text !== "")];
    return filled.length === 0 ? { ok: true, tokens: 0 } : thread.count(filled, encoding, atMost, plain.length);
  };
  const countTexts: TokenCounter["countTexts"] = (texts, encoding, atMost = Infinity) =>
    countAll({ texts, escaped: [] }, encoding, atMost);

  const prepared = new Set<Encoding>();

  return {
    prepare(encoding) {
      if (prepared.has(encoding)) return;
      prepared.add(encoding);
      void thread.count([" "], encoding, Infinity);
    },

    countTexts,
    countText: (text, encoding, atMost) => countTexts([text], encoding, atMost),

    async countChat(chat, encoding, atMost = Infinity, form) {
      const parts = tokenInput(chat, form);
      const count = await countAll(parts, encoding, Math.max(0, atMost - parts.tokens));
      return count.ok ? { ok: true, tokens: Math.min(count.tokens + parts.tokens, atMost) } : count;
    },

    [Symbol.asyncDispose]: () => thread[Symbol.asyncDispose](),
  };
}
