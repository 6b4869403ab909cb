import type { ChatText, OutputSchema, ToolTurn } from "../core/chat-text.ts";
import type { ImagePart } from "../core/image-tokens.ts";
import { imageSizeOf } from "./image-size.ts";
import { isObject, objectOr, textOr } from "./json.ts";
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
  for (const part of partsOf(content)) {
    const { text, refusal } = objectOr(part);
    for (const value of [text, refusal]) if (typeof value === "string") into.push(value);
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
