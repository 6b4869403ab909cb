import type { TokenCounter } from "../src/ports/token-counter.ts";
import { tokenInput } from "../src/platform/tokens/chat-template.ts";
import { chatTextOf } from "../src/wire/endpoints/chat-completions.ts";
import type { Owner, World } from "./world.ts";

const bytesPerToken = 4;

/** A tokenizer that everybody here shares: a token for every four bytes that were begun. */
export function tokensOf(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / bytesPerToken);
}

/** Returns the gateway's count of a prompt: its texts and the chat template. */
export function promptTokensOf(body: Buffer): number {
  return tokensIn(chatTextOf(body));
}

function tokensIn(chat: Parameters<typeof tokenInput>[0]): number {
  const { texts, escaped, tokens } = tokenInput(chat);
  return [...texts, ...escaped].reduce((sum, text) => sum + tokensOf(text), tokens);
}

/** Counts by the simulated tokenizer, in its own time; sometimes it is too busy to. */
export function simulatedCounter(world: World, owner: Owner, busy: () => number): TokenCounter {
  const count = (tokens: () => number) =>
    world.call(owner, "count tokens", async () =>
      world.chance.happens(busy())
        ? ({ ok: false, reason: "busy" } as const)
        : ({ ok: true, tokens: tokens() } as const),
    );
  const countTexts = (texts: readonly string[]) => count(() => texts.reduce((sum, text) => sum + tokensOf(text), 0));
  return { countTexts, countText: (text) => countTexts([text]), countChat: (chat) => count(() => tokensIn(chat)) };
}
