import type { TokenClass } from "../core/tokens.ts";
import { isObject, listOr, objectOr, type JsonObject } from "./json.ts";
import { hasTwinOf, type RequestFields } from "./request-fields.ts";

/** Service tiers that never cost more than the listed price. */
const plainServiceTiers: ReadonlySet<string> = new Set(["auto", "default", "flex"]);

/** Kinds of tools that run at the client and cost only their tokens. */
const clientTools: ReadonlySet<string> = new Set(["function", "custom"]);

/** Of the fields that are given those whose cost nothing bounds, by their name or by their value. */
export function unboundedFields(body: JsonObject, given: readonly string[], known: RequestFields): string[] {
  const fields = given.filter((name) => known.meaningOf(name) === "unbounded");
  const tier = body["service_tier"] ?? "auto";
  if (typeof tier !== "string" || !plainServiceTiers.has(tier)) fields.push("service_tier");
  if (listOr(body["tools"]).some((tool) => !runsAtClient(objectOr(tool)))) fields.push("tools");
  return fields;
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
  /** Items and parts whose tokens the body does not show. */
  readonly unknown: readonly string[];
}

/** The parts of a content that is no text. Gateways take a single part without a list around it. */
export function partsOf(content: unknown): readonly unknown[] {
  return isObject(content) ? [content] : listOr(content);
}

/** Classes that a token of a prompt can be billed as. What the body does not show may be images or sound. */
export function promptClasses({ images, audios, unknown }: Pick<PromptParts, "images" | "audios" | "unknown">, hidden: readonly string[]): TokenClass[] {
  const isHidden = unknown.length > 0 || hidden.length > 0;
  return [
    "input", "cached_input", "cache_write",
    ...(images > 0 || isHidden ? (["image_input"] as const) : []),
    ...(audios > 0 || isHidden ? (["audio_input"] as const) : []),
  ];
}

/** The size of a request that has neither messages nor parts, beside its text. */
export const noParts = { messages: 0, tools: 0, imageParts: 0, audioParts: 0, fileParts: 0 } as const;
