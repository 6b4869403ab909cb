import { serviceTierOf, type HostedTools, type RequestTerms } from "../core/request-terms.ts";
import type { TokenClass } from "../core/tokens.ts";
import { isObject, listOr, objectOr, textOr, type JsonObject } from "./json.ts";
import { cacheControl } from "./field-table.ts";
import type { Findings } from "./findings.ts";
import { hasTwinOf } from "./request-fields.ts";

/** Kinds of tools that run at the client and cost only their tokens. */
const clientTools: ReadonlySet<string> = new Set(["function", "custom"]);

/** Fields whose cost nothing bounds, whatever the price is. Tools that the gateway runs may name models. */
export function unboundedFields(body: JsonObject, findings: Findings): string[] {
  const tools = listOr(body["tools"]).map(objectOr);
  for (const tool of tools) if (!runsAtClient(tool)) findings.mentionIn(tool);
  for (const tool of tools) {
    for (const { cache_control } of [tool, objectOr(tool["function"])]) {
      if (cache_control != null) findings.field("tools.cache_control", cache_control, cacheControl);
    }
  }
  return findings.expensive;
}

/** Fields that ask for a hosted tool by themselves. */
const toolFields: readonly (readonly [name: string, call: string])[] = [
  ["web_search_options", "web_search_call"],
  ["plugins", "plugin_call"],
];

/** What of a request decides its price beside its size; nothing for the standard service tier and no hosted tools. */
export function requestTerms(
  body: JsonObject,
  shown: Pick<HostedTools, "areShown" | "callsMax">,
): { terms?: RequestTerms } {
  const serviceTier = serviceTierOf(body["service_tier"]);
  const listed = hostedCalls(body);
  const asking = toolFields.filter(([name]) => body[name] != null);
  if (serviceTier === null && listed.length + asking.length === 0) return {};
  const calls = [...new Set([...listed, ...asking.map(([, call]) => call)])];
  const fields = [...(listed.length > 0 ? ["tools"] : []), ...asking.map(([name]) => name)];
  return { terms: { serviceTier, hostedTools: calls.length === 0 ? null : { calls, fields, ...shown } } };
}

/** No field of the request bounds calls of hosted tools, and not every answer tells them. */
export const unboundTools: Pick<HostedTools, "areShown" | "callsMax"> = { areShown: false, callsMax: undefined };

/** The hosted tools that a request asks for, each once, by the type that its calls have as items of an answer. */
function hostedCalls(body: JsonObject): string[] {
  const hosted = listOr(body["tools"])
    .map(objectOr)
    .filter((tool) => !runsAtClient(tool));
  if (hosted.length === 0) return [];
  return [...new Set(hosted.map((tool) => (hasTwinOf("type", tool) ? "other_call" : callOf(tool["type"]))))];
}

/** "web_search_2025_08_26" is called by items of type "web_search_call". */
function callOf(type: unknown): string {
  const name = textOr(type).replace(/_(?:\d{4}_\d{2}_\d{2}|\d{8})$/, "");
  return /^[a-z][a-z0-9_]{0,58}$/.test(name) ? `${name}_call` : "other_call";
}

function runsAtClient(tool: JsonObject): boolean {
  return clientTools.has(textOr(tool["type"])) && !hasTwinOf("type", tool);
}

/** What a prompt has beside its text. */
export interface PromptParts {
  readonly images: number;
  readonly audios: number;
  readonly files: number;
  /** Bytes of payloads that the catalogue bounds by the part, never by length. */
  readonly payloadBytes: number;
}

/** The parts of a content that is no text. Gateways take a single part without a list around it. */
export function partsOf(content: unknown): readonly unknown[] {
  return isObject(content) ? [content] : listOr(content);
}

/** Classes that a token of a prompt can be billed as. What the body does not show may be images or sound. */
export function promptClasses(
  { images, audios }: Pick<PromptParts, "images" | "audios">,
  { context, cachesForHour }: Findings,
): TokenClass[] {
  const isHidden = context.length > 0;
  return [
    "input",
    "cached_input",
    "cache_write",
    ...(cachesForHour ? (["cache_write_1h"] as const) : []),
    ...(images > 0 || isHidden ? (["image_input"] as const) : []),
    ...(audios > 0 || isHidden ? (["audio_input"] as const) : []),
  ];
}

/** The size of a request that has neither messages nor parts, beside its text. */
export const noParts = { messages: 0, tools: 0, imageParts: 0, audioParts: 0, fileParts: 0 } as const;
