import type { PromptForm } from "../core/chat-text.ts";
import type { PromptText } from "../core/prompt-text.ts";
import type { Encoding } from "../ports/catalogue.ts";
import type { TokenCount, TokenCounter } from "../ports/token-counter.ts";

/** The tokens of a prompt, counted no further than `atMost`: a chat with its template, or the sum of texts that stand alone. */
export async function countPromptText(
  counter: TokenCounter,
  prompt: PromptText,
  { encoding, promptForm }: { readonly encoding: Encoding; readonly promptForm: PromptForm },
  atMost: number,
): Promise<TokenCount> {
  if (prompt.kind === "chat") return counter.countChat(prompt.chat, encoding, atMost, promptForm);
  const counted = await counter.countTexts(prompt.texts, encoding, Math.max(0, atMost - prompt.tokens));
  return counted.ok ? { ok: true, tokens: Math.min(counted.tokens + prompt.tokens, atMost) } : counted;
}
