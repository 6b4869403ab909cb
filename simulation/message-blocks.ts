import type { Chance } from "./world.ts";

/** Kinds of blocks. The proxy does not know `wonder`. */
type Kind = "text" | "thinking" | "tool" | "search" | "wonder";

/** Text that is added to a block of a message. Its length is that of whole tokens. */
export interface Block {
  readonly kind: Kind;
  readonly index: number;
  /** Text of the block so far. */
  readonly text: string;
  /** Text of the block so far that is billed, which includes the name of a tool. */
  readonly counted: string;
  readonly added: string;
  /** First form of the block; null if the text continues a block. */
  readonly opens: object | null;
  /** Index of the block that ends before this one; null for none. */
  readonly closes: number | null;
  readonly delta: object;
  readonly whole: object;
}

/** Fewest tokens of a call of a tool. */
const callTokensMin = 8;
const toolName = "find";
const searchName = "web_search";

/** Blocks of one message, in their order. */
export class MessageBlocks {
  readonly #chance: Chance;
  readonly #hasTools: boolean;
  readonly #thinks: boolean;
  readonly #hasWonder: boolean;
  /** Block that the next text may continue. */
  #open: { readonly kind: Kind; readonly index: number; text: string } | null = null;
  #next = 0;

  constructor(chance: Chance, { hasTools, thinks }: { readonly hasTools: boolean; readonly thinks: boolean }) {
    this.#chance = chance;
    this.#hasTools = hasTools;
    this.#thinks = thinks;
    this.#hasWonder = chance.happens(0.15);
  }

  /** Returns the next text of up to `room` tokens; undefined if there is no room. */
  next({
    room,
    searchesLeft,
    isWhole = false,
  }: {
    readonly room: number;
    readonly searchesLeft: number;
    readonly isWhole?: boolean;
  }): Block | undefined {
    if (room < 1) return undefined;
    const chance = this.#chance;
    if (room >= callTokensMin && searchesLeft > 0 && chance.happens(0.4)) return this.#call("search", room, isWhole);
    if (room >= callTokensMin && this.#hasTools && chance.happens(0.2)) return this.#call("tool", room, isWhole);
    const kind =
      this.#hasWonder && chance.happens(0.3) ? "wonder" : this.#thinks && this.#next < 2 ? "thinking" : "text";
    return this.#say(kind, textOf(room * 4), isWhole);
  }

  #say(kind: "text" | "thinking" | "wonder", added: string, isWhole: boolean): Block {
    const open = this.#open;
    const continues = open?.kind === kind && !isWhole && this.#chance.happens(0.8);
    const closes = continues ? null : (open?.index ?? null);
    if (open === null || !continues) this.#open = { kind, index: this.#next++, text: "" };
    const block = this.#open ?? { kind, index: 0, text: "" };
    block.text += added;
    const { index, text } = block;
    const forms = {
      text: { opens: { type: "text", text: "" }, delta: { type: "text_delta", text: added } },
      thinking: { opens: { type: "thinking", thinking: "" }, delta: { type: "thinking_delta", thinking: added } },
      wonder: { opens: { type: "wonder" }, delta: { type: "wonder_delta", wonder: added } },
    }[kind];
    const whole = { type: kind, [kind]: text };
    return { kind, index, text, counted: text, added, ...forms, opens: continues ? null : forms.opens, closes, whole };
  }

  /** Returns the call of a tool. The proxy counts the name and the input of a whole answer apart. */
  #call(kind: "tool" | "search", room: number, isWhole: boolean): Block {
    const name = kind === "tool" ? toolName : searchName;
    const counted = isWhole ? name.padEnd(Math.ceil(name.length / 4) * 4) : name;
    const input = { q: textOf(room * 4 - counted.length - '{"q":""}'.length) };
    const json = JSON.stringify(input);
    const closes = this.#open?.index ?? null;
    const index = this.#next;
    this.#next += kind === "search" ? 2 : 1;
    this.#open = null;
    const type = kind === "tool" ? "tool_use" : "server_tool_use";
    return {
      kind,
      index,
      text: json,
      counted: counted + json,
      added: json,
      opens: { type, id: `s${index}`, name, input: {} },
      closes,
      delta: { type: "input_json_delta", partial_json: json },
      whole: { type, id: `s${index}`, name, input },
    };
  }
}

function textOf(bytes: number): string {
  return "lorem ipsum dolor ".repeat(Math.ceil(bytes / 18)).slice(0, bytes);
}
