import type { ChatText, ImagePart, ImageSize, OutputSchema, ToolTurn } from "../core/prompt-text.ts";
import { isObject, jsonOf, objectOr, textOr, type JsonObject } from "./json.ts";
import { partsOf } from "./model-request.ts";

/** Chat without any content. */
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

/** Adds all texts in a content to `into`. A content is a text or a list of parts. */
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

/** Returns the images in a content: its parts of the given type. Reads the size of an image from its data URL. */
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

/** Collects calls and results in their order. A result belongs to the calls before it. */
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

/**
 * Returns the tool that a request requires by name; "none" if it forbids tools; null for any other choice. Accepts the
 * forms of chats and of the Responses API.
 */
export function toolChoiceOf(stated: unknown): ChatText["toolChoice"] {
  if (stated === "none") return "none";
  const { name, function: named } = objectOr(stated);
  const text = textOr(name) || textOr(objectOr(named)["name"]);
  return text === "" ? null : { name: text };
}

/** Returns the schema of a response format; null if the format has no schema. */
export function outputSchemaOf(stated: unknown): OutputSchema | null {
  const { name, description, schema, strict } = objectOr(stated);
  if (schema === undefined) return null;
  return { name: textOr(name), description: textOr(description), schema, isStrict: strict === true };
}

/** Largest number of JPEG segments to search for the size. Real images have a few dozen. */
const segmentsMax = 500;

/** Reads the size of a PNG, JPEG, GIF or WebP image from the header in a data URL; null for any other text. */
export function imageSizeOf(url: unknown): ImageSize | null {
  if (typeof url !== "string" || !/^data:/i.test(url.slice(0, 5))) return null;
  const comma = url.slice(0, 256).indexOf(",");
  if (comma < 0 || !/;base64$/i.test(url.slice(0, comma))) return null;
  return sizeIn(base64Bytes(url, comma + 1));
}

/** Reads `length` bytes at an offset. Returns fewer at the end of the data, and none if the data is not base64. */
type ReadBytes = (offset: number, length: number) => Buffer;

/** Returns a function that decodes only the base64 groups with the requested bytes. */
function base64Bytes(text: string, start: number): ReadBytes {
  return (offset, length) => {
    const group = Math.floor(offset / 3);
    const groups = Math.ceil((offset + length) / 3) - group;
    const encoded = text.slice(start + group * 4, start + (group + groups) * 4);
    // Line breaks and other characters would shift every later byte.
    if (!/^[A-Za-z0-9+/_-]*=*$/.test(encoded)) return Buffer.alloc(0);
    const skipped = offset - group * 3;
    return Buffer.from(encoded, "base64").subarray(skipped, skipped + length);
  };
}

function sizeIn(read: ReadBytes): ImageSize | null {
  const head = read(0, 30);
  const magic = head.toString("latin1");
  if (magic.startsWith("\x89PNG\r\n\x1a\n") && head.length >= 24)
    return size(head.readUInt32BE(16), head.readUInt32BE(20));
  if (/^GIF8[79]a/.test(magic) && head.length >= 10) return size(head.readUInt16LE(6), head.readUInt16LE(8));
  if (/^RIFF....WEBP/s.test(magic) && head.length === 30) return webpSize(head, magic.slice(12, 16));
  return magic.startsWith("\xff\xd8") ? jpegSize(read) : null;
}

function webpSize(head: Buffer, kind: string): ImageSize | null {
  switch (kind) {
    case "VP8 ":
      return size(head.readUInt16LE(26) & 0x3fff, head.readUInt16LE(28) & 0x3fff);
    case "VP8L": {
      const bits = head.readUInt32LE(21);
      return size((bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1);
    }
    case "VP8X":
      return size(head.readUIntLE(24, 3) + 1, head.readUIntLE(27, 3) + 1);
    default:
      return null;
  }
}

/** Returns the size in the first segment that begins a frame; null if there is no such segment. */
function jpegSize(read: ReadBytes): ImageSize | null {
  let offset = 2;
  for (let segment = 0; segment < segmentsMax; segment++) {
    const bytes = read(offset, 9);
    if (bytes.length < 9 || bytes[0] !== 0xff) return null;
    const marker = bytes[1] ?? 0;
    if (marker === 0xff) offset += 1;
    else if (startsFrame(marker)) return size(bytes.readUInt16BE(7), bytes.readUInt16BE(5));
    else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) offset += 2;
    else if (marker === 0xd9 || marker === 0xda) return null;
    else offset += 2 + bytes.readUInt16BE(2);
  }
  return null;
}

/** Returns true for the markers SOF0 to SOF15. Three values in that range are markers that do not begin a frame. */
function startsFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
}

function size(width: number, height: number): ImageSize | null {
  return width > 0 && height > 0 ? { width, height } : null;
}
