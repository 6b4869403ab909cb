import type { TokenClass } from "../../core/tokens.ts";
import type { Endpoint } from "../endpoint.ts";
import { modelOf, unshown, type FormHead, type FormReading } from "../form.ts";
import { isObject, objectOr, type JsonObject } from "../json.ts";
import { outlineReader } from "../json-outline.ts";
import { servedModelOf, type ModelAnswer } from "../model-answer.ts";
import {
  bytesBeside,
  choicesOf,
  invalid,
  lookAt,
  parseBody,
  type ModelRequestResult,
  type PromptReading,
} from "../model-request.ts";
import { typedRefusalEvent } from "../refusals.ts";
import { RequestFields } from "../request-fields.ts";
import { readUsageOf } from "../usage.ts";
import { mediaTranscript } from "./media-stream.ts";

/** The fields of a request for images, in JSON or as a form. */
export const imageFields = new RequestFields({
  model: "priced",
  n: "priced",

  background: "free",
  image: "free",
  input_fidelity: "free",
  mask: "free",
  moderation: "free",
  output_compression: "free",
  output_format: "free",
  partial_images: "free",
  prompt: "free",
  quality: "free",
  response_format: "free",
  size: "free",
  stream: "free",
  style: "free",
  user: "free",
});

/** The most images that an edit takes, and its mask. */
const imagesMax = 17;

const prompt: PromptReading = {
  text(body) {
    const { prompt: text } = objectOr(parseBody(body));
    return { kind: "plain", texts: typeof text === "string" ? [text] : [], tokens: 0 };
  },
  bytesBeside: (body) => bytesBeside(body, "prompt"),
};

/** Of a form nothing is counted: its first bytes bound it. */
export const unread: PromptReading = {
  text: () => ({ kind: "plain", texts: [], tokens: 0 }),
  bytesBeside: (body) => body.length,
};

const completion: readonly TokenClass[] = ["image_output", "output", "reasoning"];

export function readImageRequest(bytes: Buffer): ModelRequestResult {
  const look = lookAt(bytes, imageFields);
  if (!look.ok) return look;
  const { body, given } = look;
  const pieces = choicesOf(body["n"]);
  if (pieces === undefined) return invalid("n", "'n' must be a whole number of at least 1");
  const context = given.filter((name) => imageFields.meaningOf(name) === "context");
  const imageParts = [body["image"], body["mask"]].flatMap((given) => given ?? []).length;
  return requestOf({ model: body.model, stream: body["stream"] === true, pieces, textBytes: bytes.length, imageParts, context, unbounded: [], prompt });
}

function readImageForm(form: FormHead): ModelRequestResult {
  const model = modelOf(form, imageFields);
  if (!model.ok) return model;
  const n = form.values.get("n");
  const pieces = choicesOf(n === undefined ? undefined : Number(n));
  if (pieces === undefined) return invalid("n", "'n' must be a whole number of at least 1");
  const context = unshown(form, imageFields);
  const unbounded = form.isClear ? [] : ["form"];
  const stream = form.values.get("stream") === "true";
  return requestOf({ model: model.model, stream, pieces, textBytes: form.bytes, imageParts: imagesMax, context, unbounded, prompt: unread });
}

function requestOf(of: {
  readonly model: string;
  readonly stream: boolean;
  readonly pieces: number;
  readonly textBytes: number;
  readonly imageParts: number;
  readonly context: readonly string[];
  readonly unbounded: readonly string[];
  readonly prompt: PromptReading;
}): ModelRequestResult {
  return {
    ok: true,
    request: {
      model: of.model,
      stream: of.stream,
      wantsStreamUsage: true,
      size: {
        textBytes: of.textBytes,
        messages: 0,
        tools: 0,
        imageParts: of.imageParts,
        audioParts: 0,
        fileParts: 0,
        choices: of.pieces,
        outputLimit: null,
        unboundedFields: of.context,
      },
      unboundedFields: of.unbounded,
      classes: { prompt: ["input", "cached_input", "image_input"], completion },
      prompt: of.prompt,
      isUnseen: true,
      pieces: of.pieces,
    },
  };
}

/** Reads the outline of an answer: the images are left out of it. */
function readImages(body: unknown): ModelAnswer | undefined {
  if (!isObject(body)) return undefined;
  return {
    usage: readUsageOf({ ...body, usage: imageUsage(body["usage"]) }),
    servedModel: servedModelOf(body),
    texts: [],
    isAnswer: Array.isArray(body["data"]),
  };
}

/** Where the usage does not say what its output is, it is images. */
function imageUsage(usage: unknown): unknown {
  if (!isObject(usage) || usage["output_tokens_details"] !== undefined) return usage;
  return { ...usage, output_tokens_details: { image_tokens: usage["output_tokens"] } satisfies JsonObject };
}

function imagesAt(route: string, form: FormReading | null): Endpoint {
  return {
    route,
    readRequest: readImageRequest,
    form,
    answersMedia: false,
    answerReader: () => outlineReader(readImages),
    transcript: () => mediaTranscript(["image_generation.completed", "image_edit.completed"], imageUsage),
    askForUsage: null,
    breakEvent: typedRefusalEvent,
  };
}

const form: FormReading = { fields: imageFields, read: readImageForm };

export const imageEndpoints: readonly Endpoint[] = [
  imagesAt("/v1/images/generations", null),
  imagesAt("/v1/images/edits", form),
  imagesAt("/v1/images/variations", form),
];
