import { reportedUsage } from "./answer.ts";
import { accept, answerOrFault } from "./chat.ts";
import { charge, type Call } from "./call.ts";
import { count, type Fields } from "./chat-request.ts";
import { readForm } from "./form.ts";
import { inputTokens } from "./completions.ts";
import { plainConsumption } from "./consumption.ts";
import { writeJson } from "./plain.ts";
import { digest, randomFrom } from "./random.ts";
import { numberOf } from "./scenarios.ts";

const defaultDimensions = 1536;

/**
 * Serves `POST /v1/embeddings`. Each vector depends only on the seed, the bytes of the request and the position of the
 * vector.
 */
export async function serveEmbeddings(asked: Call): Promise<void> {
  const accepted = accept(asked, () => readForm(asked, "input"));
  if (accepted === undefined) return undefined;
  const { call, request } = accepted;
  const { input } = request.fields;
  const inputs = Array.isArray(input) && !input.every((item) => typeof item === "number") ? input : [input];
  const counted = inputs.reduce((sum: number, item) => sum + inputTokens(item), 0);
  const promptTokens = numberOf(call.scenario, "prompt") ?? counted;
  const consumption = plainConsumption(call, { model: request.model, promptTokens });
  return answerOrFault(call, false, consumption, () => {
    charge(call, consumption);
    const data = inputs.map((_, index) => ({
      object: "embedding",
      index,
      embedding: vectorOf(call, request.fields, index),
    }));
    const usage = reportedUsage(call.scenario, { prompt_tokens: promptTokens, total_tokens: promptTokens });
    return writeJson(call, { object: "list", data, model: call.scenario.served ?? request.model, usage });
  });
}

function vectorOf(
  call: Call,
  { dimensions, encoding_format: format }: Fields,
  index: number,
): readonly number[] | string {
  const random = randomFrom(digest(call.shared.options.seed, call.seen.body, index));
  const vector = Float32Array.from({ length: count(dimensions) ?? defaultDimensions }, () => random() * 0.1 - 0.05);
  return format === "base64" ? Buffer.from(vector.buffer).toString("base64") : [...vector];
}
