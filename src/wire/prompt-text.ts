import type { ChatText, OutputSchema, ToolTurn } from "../core/chat-text.ts";
import type { ImagePart } from "../core/image-tokens.ts";
import { imageSizeOf } from "./image-size.ts";
import { isObject, jsonOf, objectOr, textOr, type JsonObject } from "./json.ts";
import { partsOf } from "./request-bounds.ts";

/** A chat of nothing. */
export const noChat: ChatText = {
  api: "chat",
  texts: [],
  messages: 0,
  names: 0,
  hasSystem: false,
  turns: [],
  tools: [],
  toolChoice: null,
  isSequential: false,
  schema: null,
  images: [],
};

/** Adds the texts of a content, which is a text or a list of parts. */
export function addTexts(content: unknown, into: string[]): void {
  if (typeof content === "string") into.push(content);
  for (const part of partsOf(content).map(objectOr)) {
    for (const value of textsOf(part)) if (typeof value === "string") into.push(value);
    if (part["type"] === "tool_result") addTexts(part["content"], into);
  }
}

function textsOf({ type, text, refusal, thinking, signature, data, name, input }: JsonObject): readonly unknown[] {
  switch (type) {
    case "thinking":
      return [thinking, signature];
    case "redacted_thinking":
      return [data];
    case "tool_use":
      return [name, jsonOf(input)];
    default:
      return [text, refusal];
  }
}

/** The images of a content, by the type that its parts have: their size from the header of a data URL. */
export function imagesIn(content: unknown, type: "image_url" | "input_image"): ImagePart[] {
  return partsOf(content)
    .map(objectOr)
    .filter((part) => part["type"] === type)
    .map((part) => {
      const { image_url } = part;
      const { url, detail } = isObject(image_url) ? image_url : { url: image_url, detail: part["detail"] };
      return { size: imageSizeOf(url), detail: textOr(detail) || "auto" };
    });
}

/** Calls and results in the order in which they come: a result belongs to the calls before it. */
export class ToolTurns {
  readonly turns: ToolTurn[] = [];
  #results: string[] = [];

  calls(kind: ToolTurn["kind"], calls: ToolTurn["calls"]): void {
    this.#results = [];
    if (calls.length > 0) this.turns.push({ kind, calls, results: this.#results });
  }

  result(kind: ToolTurn["kind"], content: unknown): void {
    const texts: string[] = [];
    addTexts(content, texts);
    const last = this.turns.at(-1);
    const follows = last?.kind === kind && last.results === this.#results && last.results.length < last.calls.length;
    if (!follows) {
      this.#results = [];
      this.turns.push({ kind, calls: [], results: this.#results });
    }
    this.#results.push(texts.join(""));
  }
}

/** The tool that a request demands by name, in the form of either endpoint. */
export function toolChoiceOf(stated: unknown): ChatText["toolChoice"] {
  if (stated === "none") return "none";
  const { name, function: named } = objectOr(stated);
  const text = textOr(name) || textOr(objectOr(named)["name"]);
  return text === "" ? null : { name: text };
}

/** The schema of a response format. */
export function outputSchemaOf(stated: unknown): OutputSchema | null {
  const { name, description, schema, strict } = objectOr(stated);
  if (schema === undefined) return null;
  return { name: textOr(name), description: textOr(description), schema, isStrict: strict === true };
}
