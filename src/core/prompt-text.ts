import { scaleTokens, type Permille } from "./usage.ts";

/** Properties of an image in the prompt, as far as the request shows them. */
export interface ImagePart {
  /** Null if the image is given by URL or has an unknown format. */
  readonly size: ImageSize | null;
  /** The `detail` that the request states; "auto" if it states none. */
  readonly detail: string;
}

/** Size in pixels. */
export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** Rule by which a model family counts an image. */
export type ImageRule = TileRule | PatchRule;

/**
 * Scales the image to fit 2048 x 2048 pixels, then its short side to 768 pixels, and cuts it into tiles of 512 x 512.
 */
interface TileRule {
  readonly kind: "tiles";
  /** Tokens of an image at low detail. For other images, the tokens of their tiles are added. */
  readonly base: number;
  /** Tokens of one tile. */
  readonly tile: number;
}

/**
 * Scales the image until at most `most` square patches cover it. Each patch counts as one token. The sum is multiplied
 * by `multiplier`.
 */
interface PatchRule {
  readonly kind: "patches";
  /** Side length of a patch, in pixels. */
  readonly side: number;
  /** Largest number of patches. */
  readonly most: number;
  readonly multiplier: Permille;
  /** Longest side, in pixels. Larger images are scaled down to it first. Null for no limit. */
  readonly longest: number | null;
}

const tileSide = 512;
const square = 2048;
const shortSide = 768;

/** Returns the number of tokens of one image; null if its size is unknown or the rule does not cover its detail. */
export function imageTokens({ size, detail }: ImagePart, rule: ImageRule): number | null {
  if (rule.kind === "tiles" && detail === "low") return rule.base;
  if (size === null || (rule.kind === "patches" && detail === "original")) return null;
  return rule.kind === "tiles"
    ? rule.base + rule.tile * tilesOf(size)
    : scaleTokens(patchesOf(size, rule), rule.multiplier);
}

/** Returns the largest number of tokens that the rule gives any image. */
export function imageTokensMax(rule: ImageRule): number {
  const tiles = Math.ceil(square / tileSide) * Math.ceil(shortSide / tileSide);
  return rule.kind === "tiles" ? rule.base + rule.tile * tiles : scaleTokens(rule.most, rule.multiplier);
}

function tilesOf({ width, height }: ImageSize): number {
  const fits = Math.min(1, square / Math.max(width, height));
  const shrinks = Math.min(fits, shortSide / Math.min(width, height));
  return tilesIn(width * shrinks) * tilesIn(height * shrinks);
}

/**
 * Returns the number of tiles along a side. Tolerates the floating-point error of scaling to a whole number of tiles.
 */
function tilesIn(pixels: number): number {
  return Math.max(1, Math.ceil(pixels / tileSide - 1e-9));
}

function patchesOf({ width, height }: ImageSize, { side, most, longest }: PatchRule): number {
  const fits = longest === null ? 1 : Math.min(1, longest / Math.max(width, height));
  const [wide, high] = [(width * fits) / side, (height * fits) / side];
  const all = patchesIn(wide) * patchesIn(high);
  if (all <= most) return all;
  const shrinks = Math.sqrt(most / (wide * high));
  // Shrinks the image slightly further, so that one side is a whole number of patches.
  const whole = Math.min(shareWhole(wide * shrinks), shareWhole(high * shrinks));
  return Math.min(most, patchesIn(wide * shrinks * whole) * patchesIn(high * shrinks * whole));
}

/** Returns the factor that shrinks a side to a whole number of patches; 1 for a side of less than one patch. */
function shareWhole(patches: number): number {
  return patches < 1 ? 1 : Math.floor(patches) / patches;
}

function patchesIn(patches: number): number {
  return Math.max(1, Math.ceil(patches - 1e-9));
}

/** Result of counting the images of a request. */
export interface ImageCount {
  /** Tokens of the images that the rule could count. */
  readonly tokens: number;
  /** Number of images that the rule could count. */
  readonly sized: number;
  /** Number of the other images, for which only the catalogue's bound is known. */
  readonly unsized: number;
}

/**
 * Counts the tokens of images by their size. An image counts as at most the model's bound. `parts` is the number of
 * image parts in the request, which may differ from the number of `images`.
 */
export function countImages(
  images: readonly ImagePart[],
  parts: number,
  { imageRule, imagePartTokens }: { readonly imageRule: ImageRule | null; readonly imagePartTokens: number | null },
): ImageCount {
  let [tokens, sized] = [0, 0];
  for (const image of images.slice(0, parts)) {
    const counted = imageRule === null ? null : imageTokens(image, imageRule);
    if (counted === null) continue;
    tokens += Math.min(counted, imagePartTokens ?? Infinity);
    sized++;
  }
  return { tokens, sized, unsized: parts - sized };
}

/** A chat request as input for the tokenizer: its texts, and the parts for which the template adds tokens. */
export interface ChatText {
  /** Endpoint of the request. The same tools cost a different number of tokens on each endpoint. */
  readonly api: "chat" | "responses";
  /** Roles, names and contents of the messages, without tool calls and their results. */
  readonly texts: readonly string[];
  readonly messages: number;
  readonly names: number;
  /** True if the first message is a system or developer message. The template then adds tools to it. */
  readonly hasSystem: boolean;
  readonly turns: readonly ToolTurn[];
  /** The tool definitions as received; empty if there are none. */
  readonly tools: readonly unknown[];
  /** The tool that the request requires, or "none"; null if the request requires any tool or leaves the choice open. */
  readonly toolChoice: { readonly name: string } | "none" | null;
  /** True if the request forbids parallel tool calls. */
  readonly isSequential: boolean;
  /** Schema that the answer must follow; null if there is none. */
  readonly schema: OutputSchema | null;
  readonly images: readonly ImagePart[];
}

/** Tool calls made together, and their results. */
export interface ToolTurn {
  /** `function` is the older form, with `function_call` and messages of the role `function`. */
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

/** Prompt format of OpenAI's models: `harmony` for models that reason, `chat` for the others. */
export type PromptForm = "chat" | "harmony";

/** Input of a tokenizer: a chat, or plain texts and the number of tokens that the request contains as token ids. */
export type PromptText =
  | { readonly kind: "chat"; readonly chat: ChatText }
  | { readonly kind: "plain"; readonly texts: readonly string[]; readonly tokens: number };

/** Returns the texts of a chat that its body contains once each. */
export function textsOfChat({ texts, turns }: ChatText): readonly string[] {
  const ofTurns = turns.flatMap(({ calls, results }) => [
    ...calls.flatMap((call) => [call.name, call.arguments]),
    ...results,
  ]);
  return [...texts, ...ofTurns];
}
