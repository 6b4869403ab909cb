import { invalid } from "../../core/refusals.ts";
import type { Endpoint } from "../endpoint.ts";
import { clientTools, embeddingFields } from "../field-table.ts";
import { answerTerms, type ModelAnswer } from "../model-answer.ts";
import { isObject, objectOr } from "../json.ts";
import { outlineReader } from "../json-outline.ts";
import {
  bytesOutside,
  inspectBody,
  listedTools,
  noParts,
  parseBody,
  requestTerms,
  unlimitedTools,
  type ModelRequestResult,
  type PromptReader,
} from "../model-request.ts";
import { refusalEvent } from "../refusals.ts";
import { chatTranscript } from "../chat-stream.ts";
import { readUsageOf } from "../usage.ts";
import { promptsOf } from "./completions.ts";

const prompt: PromptReader = {
  text: (body) => ({ kind: "plain", ...promptsOf(objectOr(parseBody(body))["input"]) }),
  bytesOutside: (body) => bytesOutside(body, "input"),
};

function readEmbeddingRequest(bytes: Buffer): ModelRequestResult {
  const inspected = inspectBody(bytes, embeddingFields);
  if (!inspected.ok) return inspected;
  const { body, findings } = inspected;
  const { input } = body;
  if (typeof input !== "string" && !Array.isArray(input)) return invalid("input", "'input' must be a text or a list");
  const { prompts, hasParts } = promptsOf(input);
  return {
    ok: true,
    request: {
      model: body.model,
      stream: false,
      wantsStreamUsage: false,
      size: {
        textBytes: bytes.length,
        ...noParts,
        prompts,
        choices: 1,
        outputMax: 0,
        unboundedFields: findings.context,
      },
      unboundedFields: hasParts ? [...findings.expensive, "input"] : findings.expensive,
      ...requestTerms(body, listedTools(body["tools"], "tools", clientTools), unlimitedTools),
      fields: findings,
      classes: {
        prompt: [
          "input",
          "cached_input",
          "cache_write",
          ...(findings.cachesForHour ? ["cache_write_1h" as const] : []),
        ],
        completion: [],
      },
      prompt,
    },
  };
}

/** Reads an answer from its outline, which omits the vectors. */
function readEmbeddings(body: unknown): ModelAnswer | undefined {
  if (!isObject(body)) return undefined;
  return {
    usage: readUsageOf(body, "input"),
    ...answerTerms(body),
    texts: [],
    isAnswer: Array.isArray(body["data"]),
  };
}

export const embeddings: Endpoint = {
  route: "/v1/embeddings",
  fields: embeddingFields,
  readRequest: readEmbeddingRequest,
  answerReader: () => outlineReader(readEmbeddings),
  transcript: chatTranscript,
  breakEvent: refusalEvent,
};
