import type { TokenClass } from "../core/tokens.ts";
import { isObject, listOr, objectOr, type JsonObject } from "./json.ts";
import { cacheControl } from "./field-table.ts";
import type { Findings } from "./findings.ts";
import { hasTwinOf } from "./request-fields.ts";

/** Service tiers that never cost more than the listed price. */
const plainServiceTiers: ReadonlySet<string> = new Set(["auto", "default", "flex"]);

/** Kinds of tools that run at the client and cost only their tokens. */
const clientTools: ReadonlySet<string> = new Set(["function", "custom"]);

/** Fields whose cost nothing bounds, by their name or by their value. Tools that the gateway runs may name models. */
export function unboundedFields(body: JsonObject, findings: Findings): string[] {
  const fields: string[] = [];
  const tier = body["service_tier"] ?? "auto";
  if (typeof tier !== "string" || !plainServiceTiers.has(tier)) fields.push("service_tier");
  const tools = listOr(body["tools"]).map(objectOr);
  const hosted = tools.filter((tool) => !runsAtClient(tool));
  if (hosted.length > 0) fields.push("tools");
  for (const tool of hosted) findings.mentionIn(tool);
  for (const tool of tools) {
    for (const { cache_control } of [tool, objectOr(tool["function"])]) {
      if (cache_control != null) findings.field("tools.cache_control", cache_control, cacheControl);
    }
  }
  return [...findings.expensive, ...fields];
}

function runsAtClient(tool: JsonObject): boolean {
  return clientTools.has(String(tool["type"])) && !hasTwinOf("type", tool);
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
export function promptClasses({ images, audios }: Pick<PromptParts, "images" | "audios">, { context, cachesForHour }: Findings): TokenClass[] {
  const isHidden = context.length > 0;
  return [
    "input", "cached_input", "cache_write",
    ...(cachesForHour ? (["cache_write_1h"] as const) : []),
    ...(images > 0 || isHidden ? (["image_input"] as const) : []),
    ...(audios > 0 || isHidden ? (["audio_input"] as const) : []),
  ];
}

/** The size of a request that has neither messages nor parts, beside its text. */
export const noParts = { messages: 0, tools: 0, imageParts: 0, audioParts: 0, fileParts: 0 } as const;
