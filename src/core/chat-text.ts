import type { ImagePart } from "./image-tokens.ts";

/** A chat request for the tokenizer: its texts, and the parts for which the template adds tokens. */
export interface ChatText {
  /** The endpoint; the same tools cost other tokens on each. */
  readonly api: "chat" | "responses";
  /** Roles, names and contents. Calls of tools and their results are in `turns`. */
  readonly texts: readonly string[];
  readonly messages: number;
  readonly names: number;
  /** True if a system or developer message comes first; tools are then added to it. */
  readonly hasSystem: boolean;
  readonly turns: readonly ToolTurn[];
  /** The tool definitions as they came, or an empty list. */
  readonly tools: readonly unknown[];
  /** The tool that the request demands, or "none"; null for any or no demand. */
  readonly toolChoice: { readonly name: string } | "none" | null;
  /** True if the request forbids parallel tool calls. */
  readonly isSequential: boolean;
  /** Schema that the answer must follow; null for none. */
  readonly schema: OutputSchema | null;
  readonly images: readonly ImagePart[];
}

/** Calls of tools that came together, and their results. */
export interface ToolTurn {
  /** `function` for the older form, with `function_call` and messages of the role `function`. */
  readonly kind: "tool" | "function";
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
  readonly results: readonly string[];
}

/** A JSON schema that an answer must follow. */
export interface OutputSchema {
  readonly name: string;
  readonly description: string;
  readonly schema: unknown;
  readonly isStrict: boolean;
}

/** Prompt format of OpenAI's models: `harmony` for those that reason, `chat` for the others. */
export type PromptForm = "chat" | "harmony";
