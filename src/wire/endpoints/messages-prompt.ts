import type { ChatText } from "../../core/prompt-text.ts";
import { jsonMembers, jsonOf, listOr, objectOr, textOr, type JsonObject } from "../json.ts";
import { messagesBlocks, messagesMembers } from "../messages-fields.ts";
import { objectInFull, partsOf, type PromptReader } from "../model-request.ts";
import { addTexts, imageSizeOf, noChat, toolChoiceOf, ToolTurns } from "../prompt-text.ts";
import { bytesWithout } from "../returned-members.ts";

/** Reads the prompt of a request to Anthropic's Messages API as a chat, to count its tokens. */
export const messagesPrompt: PromptReader = {
  text: (body) => ({ kind: "chat", chat: chatOf(objectInFull(body)).chat }),
  bytesOutside: (body) =>
    jsonMembers(body)
      .filter(({ name }) => name === "messages" || name === "system")
      .reduce(
        (bytes, { valueStart, valueEnd }) => bytes - (valueEnd - valueStart),
        body.length + chatOf(objectInFull(body)).uncounted,
      ),
};

/** Collects the texts of a prompt, each once. */
class Collected {
  readonly texts: string[] = [];
  readonly turns = new ToolTurns();
  readonly images: ChatText["images"][number][] = [];
  /** Bytes of members that are no texts and have no other bound, such as unknown members of earlier answers. */
  uncounted = 0;
}

function chatOf(body: JsonObject): { readonly chat: ChatText; readonly uncounted: number } {
  const found = new Collected();
  const { texts, turns, images } = found;
  const all = listOr(body["messages"]).map(objectOr);
  const hasSystem = body["system"] != null;
  if (hasSystem) texts.push("system");
  addContent(body["system"], found);
  for (const message of all) {
    const { role } = message;
    texts.push(typeof role === "string" ? role : (jsonOf(role) ?? ""));
    addContent(message["content"], found);
    found.uncounted += bytesWithout(message, (name) => messagesMembers.meaningOf(name) !== undefined);
  }
  const chat = {
    ...noChat,
    texts,
    messages: all.length + (hasSystem ? 1 : 0),
    hasSystem,
    turns: turns.turns,
    tools: partsOf(body["tools"]).map(asFunction),
    toolChoice: toolChoiceOf(body["tool_choice"]),
    images,
  };
  return { chat, uncounted: found.uncounted };
}

function addContent(content: unknown, found: Collected): void {
  if (typeof content === "string") found.texts.push(content);
  for (const block of partsOf(content).map(objectOr)) addBlock(block, found);
}

function addBlock(block: JsonObject, found: Collected): void {
  const { texts } = found;
  const { type, name, input, content, source, citations, ...others } = block;
  const kind = textOr(type);
  const known = messagesBlocks.get(kind);
  // Of these blocks, only texts reach the model. All members of the others count as text.
  if (plainBlocks.has(kind) && typeof known === "object") {
    found.uncounted += bytesWithout(block, (member) => known.meaningOf(member) !== undefined);
    if (kind === "tool_use") found.turns.calls("tool", [{ name: textOr(name), arguments: jsonOf(input) ?? "" }]);
    else if (kind === "image") found.images.push({ size: imageSizeOf(dataUrl(objectOr(source))), detail: "auto" });
    else if (kind === "tool_result") addContent(content, found);
    else {
      addTexts([block], texts);
      if (citations != null) texts.push(jsonOf(citations) ?? "");
    }
    return;
  }
  const isParts = typeof content === "object";
  texts.push(jsonOf({ type, name, input, citations, ...others, ...(!isParts && { content }) }) ?? "");
  if (isParts) addContent(content, found);
  if (kind === "document") addDocument(objectOr(source), found);
  else if (source !== undefined) texts.push(jsonOf(source) ?? "");
}

/** Adds the text of a document. The price files bound the tokens of a file in base64 or at an address. */
function addDocument(source: JsonObject, found: Collected): void {
  const { type, data, content } = source;
  if (type === "text" && typeof data === "string") found.texts.push(data);
  else if (type === "content") addContent(content, found);
}

function dataUrl({ type, data, media_type }: JsonObject): string | null {
  return type === "base64" ? `data:${textOr(media_type)};base64,${textOr(data)}` : null;
}

/** Blocks of which only certain members reach the model. */
const plainBlocks: ReadonlySet<string> = new Set([
  "text",
  "thinking",
  "redacted_thinking",
  "image",
  "tool_use",
  "tool_result",
]);

/** Returns a tool in the form of a chat's function. */
function asFunction(tool: unknown): unknown {
  const { name, description, input_schema } = objectOr(tool);
  if (input_schema === undefined) return tool;
  return { type: "function", function: { name, description, parameters: input_schema } };
}
