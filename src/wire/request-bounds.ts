import { serviceTierOf, type HostedTools, type RequestTerms } from "../core/request-terms.ts";
import type { TokenClass } from "../core/tokens.ts";
import { isObject, listOr, objectOr, textOr, type JsonObject } from "./json.ts";
import { cacheControl, clientTools } from "./field-table.ts";
import type { Findings } from "./findings.ts";
import { hasVariantOf, type RequestFields } from "./request-fields.ts";

/** A tool that a request declares, with its position: "tools[3]", "tools[3].tools[0]" within a namespace. */
export interface ListedTool {
  readonly path: string;
  readonly tool: JsonObject;
  /** Table of its members; undefined for a tool that may run at the gateway. */
  readonly members: RequestFields | "text" | undefined;
}

/** Returns every tool of a list; tools of a namespace follow it. `known`: tools that may run at the client, by type. */
export function listedTools(
  list: unknown,
  path: string,
  known: ReadonlyMap<string, RequestFields | "text">,
): ListedTool[] {
  return partsOf(list).flatMap((item, index) => {
    const tool = objectOr(item);
    const place = `${path}[${index}]`;
    const listed = { path: place, tool, members: runsAtClient(tool) ? known.get(textOr(tool["type"])) : undefined };
    if (listed.members === undefined || tool["type"] !== "namespace") return [listed];
    // A namespace has functions; one within another is none that is known.
    return [listed, ...listedTools(tool["tools"], `${place}.tools`, clientTools)];
  });
}

/** Returns fields with no bound on their cost. Tools that the gateway runs may name models. */
export function unboundedFields(tools: readonly ListedTool[], findings: Findings): string[] {
  for (const { tool, members } of tools) {
    if (members === undefined) findings.mentionIn(tool);
    else if (members !== "text") findings.members("tools", tool, members);
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

/**
 * Returns the terms that decide a request's price, in addition to its size; none for the standard service tier without
 * hosted tools.
 */
export function requestTerms(
  body: JsonObject,
  tools: readonly ListedTool[],
  shown: Pick<HostedTools, "areShown" | "callsMax">,
): { terms?: RequestTerms } {
  const serviceTier = serviceTierOf(body["service_tier"]);
  const hosted = tools.filter(({ members }) => members === undefined);
  const asking = toolFields.filter(([name]) => body[name] != null);
  if (serviceTier === null && hosted.length + asking.length === 0) return {};
  const calls = [...new Set([...hosted.map(callOf), ...asking.map(([, call]) => call)])];
  const fields = [...hosted.map(nameOf), ...asking.map(([name]) => name)];
  return { terms: { serviceTier, hostedTools: calls.length === 0 ? null : { calls, fields, ...shown } } };
}

/** No field bounds calls of hosted tools, and not every answer shows them. */
export const unboundTools: Pick<HostedTools, "areShown" | "callsMax"> = { areShown: false, callsMax: undefined };

/** Returns the item type of a hosted tool's calls: "web_search_call" for "web_search_2025_08_26". */
function callOf({ tool }: ListedTool): string {
  const name = textOr(tool["type"]).replace(/_(?:\d{4}_\d{2}_\d{2}|\d{8})$/, "");
  return /^[a-z][a-z0-9_]{0,58}$/.test(name) && !hasVariants(tool) ? `${name}_call` : "other_call";
}

/** A tool as a refusal names it: "tools[3] (web_search)". */
function nameOf({ path, tool }: ListedTool): string {
  const type = textOr(tool["type"]);
  return /^\w{1,64}$/.test(type) && !hasVariants(tool) ? `${path} (${type})` : path;
}

/** Members that decide where a tool runs. */
const deciding = ["type", "environment", "execution", "tools"] as const;

function hasVariants(tool: JsonObject): boolean {
  return deciding.some((name) => hasVariantOf(name, tool));
}

/** Reports that a tool of a known type runs at the client: not a shell in a container, nor a search by the gateway. */
function runsAtClient(tool: JsonObject): boolean {
  if (hasVariants(tool)) return false;
  switch (tool["type"]) {
    case "namespace":
      return Array.isArray(tool["tools"]);
    case "shell":
      return tool["environment"] == null || objectOr(tool["environment"])["type"] === "local";
    case "tool_search":
      return tool["execution"] === "client";
    default:
      return true;
  }
}

/** Parts of a prompt other than its text. */
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

/** Returns the classes that a token of a prompt can be billed as. Content outside the body may be images or sound. */
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
