import type { PromptText } from "../core/prompt-text.ts";
import type { Encoding } from "../ports/catalogue.ts";
import type { TokenCount, TokenCounter } from "../ports/token-counter.ts";

/** The tokens of a prompt: a chat with its template, or the sum of texts that stand alone. */
export async function countPromptText(counter: TokenCounter, prompt: PromptText, encoding: Encoding): Promise<TokenCount> {
  if (prompt.kind === "chat") return counter.countChat(prompt.chat, encoding);
  const counted = await counter.countTexts(prompt.texts, encoding);
  return counted.ok ? { ok: true, tokens: counted.tokens + prompt.tokens } : counted;
}
