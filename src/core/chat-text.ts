/** A chat request as a tokenizer sees it: its texts, and the parts that the chat template adds tokens for. */
export interface ChatText {
  readonly texts: readonly string[];
  readonly messages: number;
  readonly names: number;
  /** The tool definitions as they came, or an empty list. */
  readonly tools: readonly unknown[];
}
