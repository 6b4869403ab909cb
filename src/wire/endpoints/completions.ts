import { invalid } from "../../core/refusals.ts";
import type { TokenClass } from "../../core/usage.ts";
import { chatCompletions } from "./chat-completions.ts";
import type { Endpoint } from "../endpoint.ts";
import { clientTools, completionFields } from "../field-table.ts";
import { isObject, listOr, objectOr } from "../json.ts";
import {
  bytesOutside,
  choicesOf,
  inspectBody,
  listedTools,
  noParts,
  statedMaximum,
  parseBody,
  requestTerms,
  unlimitedTools,
  type ModelRequest,
  type ModelRequestResult,
  type PromptReader,
} from "../model-request.ts";

/** Largest output of a request that states no maximum, in tokens. */
const defaultOutputTokens = 16;

const classes: ModelRequest["classes"] = {
  prompt: ["input", "cached_input", "cache_write"],
  completion: ["output", "reasoning"] satisfies TokenClass[],
};

const hourClasses: ModelRequest["classes"] = { ...classes, prompt: [...classes.prompt, "cache_write_1h"] };

const prompt: PromptReader = {
  text(body) {
    const { prompt: given, suffix } = objectOr(parseBody(body));
    const { texts, tokens } = promptsOf(given);
    return { kind: "plain", texts: typeof suffix === "string" ? [...texts, suffix] : texts, tokens };
  },
  bytesOutside: (body) => bytesOutside(body, "prompt"),
};

function readCompletionRequest(bytes: Buffer): ModelRequestResult {
  const inspected = inspectBody(bytes, completionFields);
  if (!inspected.ok) return inspected;
  const { body, findings } = inspected;
  const choices = choicesOf(body["n"]);
  if (choices === undefined) return invalid("n", "'n' must be a whole number from 1 to 1000");
  const best = choicesOf(body["best_of"]);
  if (best === undefined) return invalid("best_of", "'best_of' must be a whole number from 1 to 1000");
  const { prompts, hasParts } = promptsOf(body["prompt"]);
  const { outputMax, maximumField } = statedMaximum(body, "max_tokens");
  return {
    ok: true,
    request: {
      model: body.model,
      stream: body["stream"] === true,
      wantsStreamUsage: objectOr(body["stream_options"])["include_usage"] === true,
      size: {
        textBytes: bytes.length,
        ...noParts,
        prompts,
        // Each prompt gets separate choices. The gateway bills all choices of `best_of`, although the answer shows only
        // the best.
        choices: prompts * Math.max(choices, best),
        outputMax: outputMax ?? defaultOutputTokens,
        unboundedFields: findings.context,
      },
      unboundedFields: [...findings.expensive, ...(hasParts ? ["prompt"] : [])],
      ...maximumField,
      ...(body["echo"] === true && body["max_tokens"] === 0 && { onlyRepeatsPrompt: true }),
      ...requestTerms(body, listedTools(body["tools"], "tools", clientTools), unlimitedTools),
      fields: findings,
      classes: findings.cachesForHour ? hourClasses : classes,
      prompt,
    },
  };
}

/**
 * Endpoint for the older completions, without chat messages. Farebox reads its answers and streams like those of chats.
 */
export const completions: Endpoint = {
  ...chatCompletions,
  route: "/v1/completions",
  fields: completionFields,
  readRequest: readCompletionRequest,
  maximum: { api: "completions", fields: ["max_tokens"], absent: defaultOutputTokens },
};

/** Prompts of a request that is not a chat. */
interface PlainPrompts {
  readonly texts: readonly string[];
  /** Number of tokens in prompts that are lists of tokens. */
  readonly tokens: number;
  /** Number of prompts, at least 1. Each prompt uses a separate context. */
  readonly prompts: number;
  /**
   * True if a part of a prompt is neither text nor tokens, for example an image. The cost of such a part is unknown.
   */
  readonly hasParts: boolean;
}

/** Reads one or more texts, or one or more lists of tokens. Any other value counts as a single prompt without text. */
export function promptsOf(value: unknown): PlainPrompts {
  if (typeof value === "string") return { texts: [value], tokens: 0, prompts: 1, hasParts: false };
  if (!Array.isArray(value) || value.length === 0)
    return { texts: [], tokens: 0, prompts: 1, hasParts: isObject(value) };
  const hasParts = value.some(
    (item) => isObject(item) || listOr(item).some((part) => typeof part === "object" && part !== null),
  );
  const texts = value.filter((item) => typeof item === "string");
  if (value.every((item) => typeof item === "number")) return { texts, tokens: value.length, prompts: 1, hasParts };
  const tokens = value.reduce((sum: number, item) => sum + (Array.isArray(item) ? item.length : 0), 0);
  return { texts, tokens, prompts: value.length, hasParts };
}
