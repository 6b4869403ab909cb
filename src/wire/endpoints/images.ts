import type { RequestSize } from "../../core/bounds.ts";
import type { TokenClass, Usage } from "../../core/usage.ts";
import type { Endpoint } from "../endpoint.ts";
import { imageFields } from "../field-table.ts";
import type { Findings } from "../findings.ts";
import { formFindings, modelOf, type FormHead, type FormReader } from "../form.ts";
import { answerTerms, type AnswerTerms, type ModelAnswer } from "../model-answer.ts";
import { isObject, objectOr, parseJson, textOr, type JsonObject } from "../json.ts";
import { JsonOutline, outlineReader } from "../json-outline.ts";
import {
  bytesOutside,
  choicesOf,
  inspectBody,
  invalid,
  noParts,
  parseBody,
  tooManyNames,
  type ModelRequest,
  type ModelRequestResult,
  type PromptReader,
} from "../model-request.ts";
import { typedRefusalEvent } from "../refusals.ts";
import { readUsageOf } from "../usage.ts";
import type { Written } from "../output-walk.ts";
import {
  StreamOutput,
  StreamTranscript,
  type EventReader,
  type StreamAnswer,
  type Transcript,
} from "../stream-output.ts";

/** Largest number of images that an edit takes, including its mask. */
const imagesMax = 17;

const prompt: PromptReader = {
  text(body) {
    const { prompt: text } = objectOr(parseBody(body));
    return { kind: "plain", texts: typeof text === "string" ? [text] : [], tokens: 0 };
  },
  bytesOutside: (body) => bytesOutside(body, "prompt"),
};

/** Counts no text. All bytes that were read bound the prompt. */
export const uncounted: PromptReader = {
  text: () => ({ kind: "plain", texts: [], tokens: 0 }),
  bytesOutside: (body) => body.length,
};

const completion: readonly TokenClass[] = ["image_output", "output", "reasoning"];

function readImageRequest(bytes: Buffer): ModelRequestResult {
  const inspected = inspectBody(bytes, imageFields);
  if (!inspected.ok) return inspected;
  const { body, findings } = inspected;
  const pieces = choicesOf(body["n"]);
  if (pieces === undefined) return invalid("n", "'n' must be a whole number of at least 1");
  const size = {
    textBytes: bytes.length,
    imageParts: [body["image"], body["mask"]].flatMap((given) => given ?? []).length,
  };
  return requestOf({ model: body.model, stream: body["stream"] === true, pieces, prompt }, size, findings);
}

function readImageForm(form: FormHead): ModelRequestResult {
  const model = modelOf(form, imageFields);
  if (!model.ok) return model;
  const n = form.values.get("n");
  const pieces = choicesOf(n === undefined ? undefined : Number(n));
  if (pieces === undefined) return invalid("n", "'n' must be a whole number of at least 1");
  const findings = formFindings(form, imageFields);
  if (findings === undefined) return tooManyNames;
  const size = { textBytes: form.bytes, imageParts: imagesMax };
  const stream = form.values.get("stream") === "true";
  return requestOf({ model: model.model, stream, pieces, prompt: uncounted }, size, findings, form.isClear);
}

/** Returns the request. `isClear` is false for a form that another reader could read differently. */
function requestOf(
  stated: Pick<ModelRequest, "model" | "stream" | "prompt"> & { readonly pieces: number },
  size: Pick<RequestSize, "textBytes" | "imageParts">,
  findings: Findings,
  isClear = true,
): ModelRequestResult {
  return {
    ok: true,
    request: {
      ...stated,
      wantsStreamUsage: true,
      size: { ...noParts, ...size, choices: stated.pieces, outputLimit: null, unboundedFields: findings.context },
      unboundedFields: isClear ? findings.expensive : [...findings.expensive, "form"],
      fields: findings,
      classes: { prompt: ["input", "cached_input", "image_input"], completion },
      isUnseen: true,
    },
  };
}

/** Reads the outline of an answer, which omits the images. */
function readImages(body: unknown): ModelAnswer | undefined {
  if (!isObject(body)) return undefined;
  return {
    usage: readUsageOf({ ...body, usage: imageUsage(body["usage"]) }),
    ...answerTerms(body),
    texts: [],
    isAnswer: Array.isArray(body["data"]),
  };
}

/** Counts all output tokens as images if the usage has no details of the output. */
function imageUsage(usage: unknown): unknown {
  if (!isObject(usage) || usage["output_tokens_details"] !== undefined) return usage;
  return { ...usage, output_tokens_details: { image_tokens: usage["output_tokens"] } satisfies JsonObject };
}

function imagesAt(route: string, form: FormReader | null): Endpoint {
  return {
    route,
    fields: imageFields,
    readRequest: readImageRequest,
    form,
    answersMedia: false,
    answerReader: () => outlineReader(readImages),
    transcript: () => mediaTranscript(["image_generation.completed", "image_edit.completed"], imageUsage),
    maximum: null,
    askForUsage: null,
    breakEvent: typedRefusalEvent,
  };
}

const form: FormReader = { fields: imageFields, read: readImageForm };

export const imageEndpoints: readonly Endpoint[] = [
  imagesAt("/v1/images/generations", null),
  imagesAt("/v1/images/edits", form),
  imagesAt("/v1/images/variations", form),
];

/**
 * Returns a transcript of the outline of a stream of images or sound, without its data. An event whose type is in `endings`
 * completes the stream and states the usage.
 */
export function mediaTranscript(
  endings: readonly string[],
  usageOf: (usage: unknown) => unknown = (usage) => usage,
): Transcript {
  const reading = (): EventReader => new MediaEventReader(endings, usageOf);
  const transcript = new StreamTranscript({ lastEvents: () => undefined, reading });
  let pieces: Buffer[] = [];
  const outline = new JsonOutline((bytes) => pieces.push(bytes), { lines: true });
  return {
    push(bytes) {
      outline.push(bytes);
      // Joins the pieces into one copy, because there may be a piece for every byte.
      if (pieces.length > 0) transcript.push(Buffer.concat(pieces));
      pieces = [];
    },
    end: () => transcript.end(),
    everything: () => transcript.everything(),
  };
}

class MediaEventReader implements EventReader {
  readonly output = new StreamOutput();
  readonly #endings: readonly string[];
  readonly #usageOf: (usage: unknown) => unknown;
  #usage: Usage | undefined;
  #terms: AnswerTerms = { servedModel: null };
  #finished = false;

  constructor(endings: readonly string[], usageOf: (usage: unknown) => unknown) {
    this.#endings = endings;
    this.#usageOf = usageOf;
  }

  /** Accepts an unreadable event without counting it. A stream without a usage is charged at its hold. */
  event(data: string): boolean {
    const event = parseJson(data);
    if (!isObject(event) || !this.#endings.includes(textOr(event["type"]))) return true;
    this.#finished = true;
    this.#terms = answerTerms(event);
    this.#usage = readUsageOf({ ...event, usage: this.#usageOf(event["usage"]) }) ?? this.#usage;
    return true;
  }

  answer(): Omit<StreamAnswer, keyof Written> {
    return { usage: this.#usage, ...this.#terms, finished: this.#finished };
  }
}
