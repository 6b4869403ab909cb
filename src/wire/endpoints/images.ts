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
  parseBody,
  tooManyNames,
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

/** The most images that an edit takes, and its mask. */
const imagesMax = 17;

const prompt: PromptReader = {
  text(body) {
    const { prompt: text } = objectOr(parseBody(body));
    return { kind: "plain", texts: typeof text === "string" ? [text] : [], tokens: 0 };
  },
  bytesOutside: (body) => bytesOutside(body, "prompt"),
};

/** Of a form nothing is counted: its first bytes bound it. */
export const uncounted: PromptReader = {
  text: () => ({ kind: "plain", texts: [], tokens: 0 }),
  bytesOutside: (body) => body.length,
};

const completion: readonly TokenClass[] = ["image_output", "output", "reasoning"];

export function readImageRequest(bytes: Buffer): ModelRequestResult {
  const inspected = inspectBody(bytes, imageFields);
  if (!inspected.ok) return inspected;
  const { body, findings } = inspected;
  const pieces = choicesOf(body["n"]);
  if (pieces === undefined) return invalid("n", "'n' must be a whole number of at least 1");
  const stream = body["stream"] === true;
  const imageParts = [body["image"], body["mask"]].flatMap((given) => given ?? []).length;
  return requestOf({
    model: body.model,
    stream,
    pieces,
    textBytes: bytes.length,
    imageParts,
    findings,
    isClear: true,
    prompt,
  });
}

function readImageForm(form: FormHead): ModelRequestResult {
  const model = modelOf(form, imageFields);
  if (!model.ok) return model;
  const n = form.values.get("n");
  const pieces = choicesOf(n === undefined ? undefined : Number(n));
  if (pieces === undefined) return invalid("n", "'n' must be a whole number of at least 1");
  const findings = formFindings(form, imageFields);
  if (findings === undefined) return tooManyNames;
  const stream = form.values.get("stream") === "true";
  return requestOf({
    model: model.model,
    stream,
    pieces,
    textBytes: form.bytes,
    imageParts: imagesMax,
    findings,
    isClear: form.isClear,
    prompt: uncounted,
  });
}

function requestOf(of: {
  readonly model: string;
  readonly stream: boolean;
  readonly pieces: number;
  readonly textBytes: number;
  readonly imageParts: number;
  readonly findings: Findings;
  readonly isClear: boolean;
  readonly prompt: PromptReader;
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
        unboundedFields: of.findings.context,
      },
      unboundedFields: of.isClear ? of.findings.expensive : [...of.findings.expensive, "form"],
      fields: of.findings,
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
    ...answerTerms(body),
    texts: [],
    isAnswer: Array.isArray(body["data"]),
  };
}

/** Where the usage does not say what its output is, it is images. */
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
 * Remembers a stream of images or sound by its outline: of its data nothing is kept. It is whole with an event of one of
 * the types, which carries the usage.
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
      // In one piece, which is a copy: there may be a piece for every byte.
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

  /** Of what cannot be read nothing is counted: without a usage such a stream is charged at its hold. */
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
