import type { Encoding } from "./catalogue.ts";

/** Counting is refused rather than queued without bound. */
export type TokenCount = { readonly ok: true; readonly tokens: number } | { readonly ok: false; readonly reason: "busy" };

/** A message's parts that the chat template counts; the texts are counted apart. */
export interface ChatText {
  readonly texts: readonly string[];
  readonly messages: number;
  readonly names: number;
  /** The tool definitions as they came, or an empty list. */
  readonly tools: readonly unknown[];
}

/** Counts tokens with the public tokenizers; long texts on a worker thread, in bounded time whatever the text. */
export interface TokenCounter {
  countText(text: string, encoding: Encoding): Promise<TokenCount>;
  /** Texts, plus the chat template: 3 a message, 1 a name, 3 for the reply, and an estimate for tools. */
  countChat(chat: ChatText, encoding: Encoding): Promise<TokenCount>;
}
