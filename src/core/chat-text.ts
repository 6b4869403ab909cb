import type { ImagePart } from "./image-tokens.ts";

/** A chat request as a tokenizer sees it: its texts, and what the template of the model's prompt adds tokens for. */
export interface ChatText {
  /** The endpoint; the same tools cost other tokens on each. */
  readonly api: "chat" | "responses";
  /** Roles, names and contents. Calls of tools and their results are in `turns`. */
  readonly texts: readonly string[];
  readonly messages: number;
  readonly names: number;
  /** Whether a message of the system or the developer comes first, which tools then join. */
  readonly hasSystem: boolean;
  readonly turns: readonly ToolTurn[];
  /** The tool definitions as they came, or an empty list. */
  readonly tools: readonly unknown[];
  /** The tool that the request demands: its name, "none", or null for any or no demand. */
  readonly toolChoice: { readonly name: string } | "none" | null;
  /** Whether the request forbids parallel calls of tools. */
  readonly isSequential: boolean;
  /** The shape that the answer must have; null for none. */
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

/** How OpenAI's models see a chat: `harmony` is the form of those that reason, `chat` that of the others. */
export type PromptForm = "chat" | "harmony";
