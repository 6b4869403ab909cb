import type { TokenCounter } from "../src/ports/token-counter.ts";
import { tokenInput } from "../src/platform/tokens/chat-template.ts";
import { readMessagesRequest } from "../src/wire/endpoints/messages.ts";
import { chatTextOf } from "../src/wire/endpoints/chat-completions.ts";
import type { Owner, World } from "./world.ts";

const bytesPerToken = 4;

/** Returns the number of tokens of a text: one for every four bytes, rounded up. The gateway and the proxy share this tokenizer. */
export function tokensOf(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / bytesPerToken);
}

/** Returns the gateway's count of a prompt: its texts and the chat template. */
export function promptTokensOf(body: Buffer): number {
  return tokensIn(chatTextOf(body));
}

/** Returns the gateway's count of the prompt of a message. */
export function promptTokensOfMessages(body: Buffer): number {
  const read = readMessagesRequest(body);
  const prompt = read.ok ? read.request.prompt.text(body) : undefined;
  if (prompt?.kind !== "chat") throw new Error("the gateway cannot read a message");
  return tokensIn(prompt.chat);
}

function tokensIn(chat: Parameters<typeof tokenInput>[0]): number {
  const { texts, escaped, tokens } = tokenInput(chat);
  return [...texts, ...escaped].reduce((sum, text) => sum + tokensOf(text), tokens);
}

/** Creates a token counter that answers after a delay, and sometimes refuses as if it were busy. */
export function simulatedCounter(world: World, owner: Owner, busy: () => number): TokenCounter {
  const count = (tokens: () => number) =>
    world.call(owner, "count tokens", async () =>
      world.chance.happens(busy())
        ? ({ ok: false, reason: "busy" } as const)
        : ({ ok: true, tokens: tokens() } as const),
    );
  const countTexts = (texts: readonly string[]) => count(() => texts.reduce((sum, text) => sum + tokensOf(text), 0));
  const prepare = () => {};
  return {
    prepare,
    countTexts,
    countText: (text) => countTexts([text]),
    countChat: (chat) => count(() => tokensIn(chat)),
  };
}
