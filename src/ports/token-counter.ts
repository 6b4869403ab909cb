import type { ChatText, PromptForm } from "../core/prompt-text.ts";
import type { Encoding } from "./catalogue.ts";

/** Result of a count. `busy`: too many counts are in progress, so this count is refused instead of queued. */
export type TokenCount =
  | { readonly ok: true; readonly tokens: number }
  | { readonly ok: false; readonly reason: "busy" };

/**
 * Counts tokens with the public tokenizers on a worker thread, in bounded time for any text. A count stops at `atMost`
 * and returns that number.
 */
export interface TokenCounter {
  /** Starts the worker thread and loads the encoding, so that the first count does not wait for this. */
  prepare(encoding: Encoding): void;
  /** Counts each text and returns the sum. */
  countTexts(texts: readonly string[], encoding: Encoding, atMost?: number): Promise<TokenCount>;
  countText(text: string, encoding: Encoding, atMost?: number): Promise<TokenCount>;
  /**
   * Counts texts, and the tokens that the chat template adds for messages, tools, tool calls and a schema. Omits
   * images.
   */
  countChat(chat: ChatText, encoding: Encoding, atMost?: number, form?: PromptForm): Promise<TokenCount>;
}
