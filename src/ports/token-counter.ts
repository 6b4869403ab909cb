import type { ChatText, PromptForm } from "../core/prompt-text.ts";
import type { Encoding } from "./catalogue.ts";

/** Result of a count. Counts beyond a bound are refused rather than queued. */
export type TokenCount =
  | { readonly ok: true; readonly tokens: number }
  | { readonly ok: false; readonly reason: "busy" };

export type { ChatText };

/**
 * Counts tokens with the public tokenizers, in bounded time for any text; long texts on a worker thread. With `atMost` it stops
 * there: a longer text counts as that many.
 */
export interface TokenCounter {
  /** Texts one by one, summed. */
  countTexts(texts: readonly string[], encoding: Encoding, atMost?: number): Promise<TokenCount>;
  countText(text: string, encoding: Encoding, atMost?: number): Promise<TokenCount>;
  /** Texts, plus what the chat template makes of messages, tools, their calls and a schema; images are not counted. */
  countChat(chat: ChatText, encoding: Encoding, atMost?: number, form?: PromptForm): Promise<TokenCount>;
}
