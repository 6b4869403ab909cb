import { charge, type Call } from "./call.ts";
import { reportedUsage } from "./answer.ts";
import { accept, answerOrFault } from "./chat.ts";
import type { Fields } from "./chat-request.ts";
import { plainConsumption } from "./consumption.ts";
import { readForm } from "./form.ts";
import { writeJson } from "./plain.ts";
import { numberOf } from "./scenarios.ts";
import { writeMediaEvents } from "./media-events.ts";
import { countTokens } from "./text.ts";

/** Image of one black pixel. */
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";

/** Number of tokens of a square image by quality, from the provider's table. */
const outputTokens: Readonly<Record<string, number>> = { low: 272, medium: 1056, high: 4160 };
const tokensOfInputImage = 323;

/** Serves `POST /v1/images/generations`, `edits` and `variations`. Every image is one pixel, billed by its quality. */
export async function serveImages(asked: Call): Promise<void> {
  const accepted = accept(asked, () => readForm(asked, "prompt"));
  if (accepted === undefined) return undefined;
  const { call, request } = accepted;
  const { fields, files } = request;
  const count = Number(fields["n"] ?? 1);
  const imageTokens = files.length * tokensOfInputImage;
  const textTokens = numberOf(call.scenario, "prompt") ?? countTokens(String(fields["prompt"] ?? ""));
  const quality = String(fields["quality"] ?? "high");
  const perImage = outputTokens[quality] ?? outputTokens["high"] ?? 0;
  const used = {
    model: request.model,
    promptTokens: textTokens + imageTokens,
    partTokens: imageTokens,
    completionTokens: count * perImage,
  };
  const consumption = plainConsumption(call, used);
  const usage = reportedUsage(call.scenario, {
    total_tokens: textTokens + imageTokens + count * perImage,
    input_tokens: textTokens + imageTokens,
    output_tokens: count * perImage,
    input_tokens_details: { text_tokens: textTokens, image_tokens: imageTokens },
  });
  const image = pixel + "A".repeat(numberOf(call.scenario, "big") ?? 0);
  const facts = {
    created: Math.floor(call.shared.options.now() / 1000),
    background: "opaque",
    output_format: "png",
    quality,
    size: "1024x1024",
  };
  const isStream = String(fields["stream"]) === "true";
  return answerOrFault(call, isStream, consumption, () => {
    if (isStream)
      return writeMediaEvents(
        call,
        consumption,
        streamOf(call, { image, usage, partial: Number(fields["partial_images"] ?? 0) }),
      );
    charge(call, consumption);
    const data = Array.from({ length: count }, () => ({ b64_json: image }));
    return writeJson(call, { ...facts, data, usage });
  });
}

function* streamOf(
  call: Call,
  of: { readonly image: string; readonly usage: Fields | undefined; readonly partial: number },
): Generator<Fields> {
  const kind = call.path.endsWith("/generations") ? "image_generation" : "image_edit";
  for (let index = 0; index < of.partial; index++) {
    yield { type: `${kind}.partial_image`, partial_image_index: index, b64_json: of.image };
  }
  if ("no-finish" in call.scenario) return;
  yield { type: `${kind}.completed`, b64_json: of.image, usage: of.usage };
}
