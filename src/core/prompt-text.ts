import type { ChatText } from "./chat-text.ts";

/** A prompt as a tokenizer sees it: a chat with its template, or texts alone with tokens that came as tokens. */
export type PromptText =
  | { readonly kind: "chat"; readonly chat: ChatText }
  | { readonly kind: "plain"; readonly texts: readonly string[]; readonly tokens: number };
