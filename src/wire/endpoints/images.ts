import { invalid } from "../../core/refusals.ts";
import type { RequestSize } from "../../core/bounds.ts";
import { addUsage, laterUsage } from "../../core/several-usages.ts";
import type { TokenClass, Usage } from "../../core/usage.ts";
import type { Endpoint } from "../endpoint.ts";
import { imageFields } from "../field-table.ts";
import { baseOf, type Findings } from "../findings.ts";
import { inspectForm, type Form } from "../form.ts";
import {
  answerTerms,
  countsOutput,
  latestTerms,
  type AnswerTerms,
  type ModelAnswer,
  type UsageSoFar,
  type AnswerOutput,
} from "../model-answer.ts";
import { isObject, listOr, objectOr, parseJson, textOr, type JsonObject } from "../json.ts";
import { JsonOutline, outlineReader } from "../json-outline.ts";
import {
  bytesOutside,
  choicesOf,
  inspectBody,
  noParts,
  parseBody,
  type ModelRequest,
  type ModelRequestResult,
  type PromptReader,
} from "../model-request.ts";
import { typedRefusalEvent } from "../refusals.ts";
import type { StatedError } from "../../core/settlement.ts";
import { readEventError } from "../error-answer.ts";
import { readUsageOf } from "../usage.ts";
import { StreamOutput, type StreamAnswer } from "../stream-output.ts";
import { StreamTranscript, type EventReader, type StreamTail, type Transcript } from "../stream-transcript.ts";

/**
 * Largest number of images, including a mask, that the text fields of a form may name. A form is priced for at least
 * this number of images.
 */
const imagesMax = 17;
const media: ReadonlySet<string> = new Set(["image", "mask"]);

const prompt: PromptReader = {
  text(body) {
    const { prompt: text } = objectOr(parseBody(body));
    return { kind: "plain", texts: typeof text === "string" ? [text] : [], tokens: 0 };
  },
  bytesOutside: (body) => bytesOutside(body, "prompt"),
};

/**
 * Reads a prompt that Farebox does not count as text. Instead, the number of bytes is an upper bound for its tokens.
 */
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
  if (pieces === undefined) return invalid("n", "'n' must be a whole number from 1 to 1000");
  const size = {
    textBytes: bytes.length,
    imageParts: [body["image"], body["mask"]].flatMap((given) => given ?? []).length,
  };
  return requestOf({ model: body.model, stream: body["stream"] === true, pieces, prompt }, size, findings);
}

function readImageForm(given: Form | undefined): ModelRequestResult {
  const inspected = inspectForm(given, imageFields);
  if (!inspected.ok) return inspected;
  const { form, model, findings } = inspected;
  const n = form.value("n");
  const pieces = choicesOf(n === undefined ? undefined : Number(n));
  if (pieces === undefined) return invalid("n", "'n' must be a whole number from 1 to 1000");
  const images = form.parts.filter(({ name }) => media.has(baseOf(name))).length;
  const size = { textBytes: form.textBytes(media), imageParts: Math.max(images, imagesMax) };
  const stream = form.value("stream") === "true";
  return requestOf({ model, stream, pieces, prompt: uncounted }, size, findings);
}

function requestOf(
  stated: Pick<ModelRequest, "model" | "stream" | "prompt"> & { readonly pieces: number },
  size: Pick<RequestSize, "textBytes" | "imageParts">,
  findings: Findings,
): ModelRequestResult {
  return {
    ok: true,
    request: {
      ...stated,
      wantsStreamUsage: true,
      size: { ...noParts, ...size, choices: stated.pieces, outputMax: null, unboundedFields: findings.context },
      unboundedFields: findings.expensive,
      fields: findings,
      unread: findings.unread,
      classes: { prompt: ["input", "cached_input", "image_input"], completion },
      isUnseen: true,
    },
  };
}

/** Reads an answer from its outline, which omits the images. */
function readImages(body: unknown): ModelAnswer | undefined {
  if (!isObject(body)) return undefined;
  return {
    ...usageOfMedia(imageUsage(readUsageOf(body)), listOr(body["data"]).length > 0),
    ...answerTerms(body),
    texts: [],
    isAnswer: Array.isArray(body["data"]),
  };
}

/** Returns the usage of an answer that no tokenizer counts. `hasOutput`: true if the answer contains media or text. */
export function usageOfMedia(usage: Usage | undefined, hasOutput: boolean): Pick<ModelAnswer, "usage" | "soFar"> {
  if (usage === undefined || !hasOutput || countsOutput(usage)) return { usage };
  return uncovered(usage);
}

/** Returns a usage that does not cover the media of its answer. */
function uncovered(usage: Usage | undefined): { readonly usage: undefined; readonly soFar?: UsageSoFar | undefined } {
  return { usage: undefined, soFar: usage && { usage, later: { texts: [] }, isFinal: false } };
}

/** Counts all output tokens as images if the usage does not divide them into text and images. */
function imageUsage(usage: Usage | undefined): Usage | undefined {
  if (usage === undefined || usage.wroteOnlyText === true || usage.tokens.image_output > 0) return usage;
  return { ...usage, tokens: { ...usage.tokens, output: 0, image_output: usage.tokens.output } };
}

function imagesAt(route: string, readForm?: Endpoint["readForm"]): Endpoint {
  return {
    route,
    fields: imageFields,
    readRequest: readImageRequest,
    ...(readForm && { readForm }),
    answerReader: () => outlineReader(readImages),
    transcript: () =>
      mediaTranscript(
        ["image_generation.completed", "image_edit.completed"],
        (event) => imageUsage(readUsageOf(event)),
        addUsage,
      ),
    breakEvent: typedRefusalEvent,
  };
}

export const imageEndpoints: readonly Endpoint[] = [
  imagesAt("/v1/images/generations"),
  imagesAt("/v1/images/edits", readImageForm),
  imagesAt("/v1/images/variations", readImageForm),
];

/**
 * Returns a transcript for a stream of images or audio. The transcript reads only the outline of the stream, without
 * media data. An event whose type is in `endings` completes the stream and states the usage. `merge`: merges the usages
 * of two such events.
 */
export function mediaTranscript(
  endings: readonly string[],
  usageOf: (event: JsonObject) => Usage | undefined = (event) => readUsageOf(event),
  merge: (before: Usage, next: Usage) => Usage = laterUsage,
): Transcript {
  return new OutlineTranscript((isShortened) => new MediaEventReader({ endings, usageOf, merge, isShortened }));
}

class OutlineTranscript extends StreamTranscript {
  #pieces: Buffer[] = [];
  readonly #outline = new JsonOutline((bytes) => this.#pieces.push(bytes), { lines: true });
  /** Number of bytes that the outline has omitted or not passed on yet. */
  readonly #omitted: { bytes: number };

  constructor(form: (isShortened: () => boolean) => EventReader) {
    const omitted = { bytes: 0 };
    super(() => form(() => omitted.bytes > 0));
    this.#omitted = omitted;
  }

  override push(bytes: Buffer): void {
    this.#omitted.bytes += bytes.length;
    this.#outline.push(bytes);
    for (const piece of this.#pieces) this.#omitted.bytes -= piece.length;
    // Joins the pieces, because there may be one for each byte.
    if (this.#pieces.length > 0) super.push(Buffer.concat(this.#pieces));
    this.#pieces = [];
  }

  /** Returns no answer, because each ending must state a usage. */
  override tail(): StreamTail {
    return { ...super.tail(), answer: undefined };
  }
}

/** Rules for reading a stream of media. */
interface MediaRules {
  readonly endings: readonly string[];
  readonly usageOf: (event: JsonObject) => Usage | undefined;
  readonly merge: (before: Usage, next: Usage) => Usage;
  /** Returns true if the outline omits anything so far. */
  isShortened(): boolean;
}

/** Members of an event that are neither media nor text. */
const envelope: ReadonlySet<string> = new Set(
  "created created_at duration event_id id language model object obfuscation sequence_number service_tier status timestamp type usage".split(
    " ",
  ),
);

function contentOf(event: JsonObject): readonly unknown[] {
  return Object.entries(event)
    .filter(([name]) => !envelope.has(name))
    .map(([, value]) => value);
}

/** Returns true if a value is a text, list or object that is not empty. */
function hasContent(value: unknown): boolean {
  return typeof value === "string" ? value !== "" : Object.keys(objectOr(value)).length + listOr(value).length > 0;
}

class MediaEventReader implements EventReader {
  readonly output = new StreamOutput();
  readonly #rules: MediaRules;
  #usage: Usage | undefined;
  /** True if an ending states no usage. */
  #lacksUsage = false;
  /** True if an ending states a usage that counts no output. */
  #lacksOutput = false;
  /** True if media came after the last ending, whose usage does not cover them. */
  #continues = false;
  /** True if an event contains media or text. */
  #hasContent = false;
  #terms: AnswerTerms = { servedModel: null };
  #finished = false;
  /** True if an event other than an error has arrived. Each of these events may contain media. */
  #hasOutput = false;
  #error: StatedError | undefined;

  constructor(rules: MediaRules) {
    this.#rules = rules;
  }

  /** Ignores unreadable events. Their bytes need no count, because a stream without usage is charged at its hold. */
  event(data: string): boolean {
    const event = parseJson(data);
    if (!isObject(event)) return true;
    this.#terms = latestTerms(this.#terms, answerTerms(event));
    const error = readEventError(event);
    this.#error ??= error;
    this.#hasOutput ||= error === undefined;
    const { endings, usageOf, merge } = this.#rules;
    const content = error === undefined ? contentOf(event) : [];
    this.#hasContent ||= content.some(hasContent);
    if (!endings.includes(textOr(event["type"]))) {
      this.#continues ||= this.#finished && content.length > 0;
      return true;
    }
    const usage = usageOf(event);
    this.#usage = this.#usage === undefined || usage === undefined ? (this.#usage ?? usage) : merge(this.#usage, usage);
    this.#lacksUsage ||= usage === undefined;
    this.#lacksOutput ||= usage !== undefined && !countsOutput(usage);
    this.#continues = false;
    this.#finished = true;
    return true;
  }

  get isComplete(): boolean {
    return this.#finished;
  }

  answer(): Omit<StreamAnswer, keyof AnswerOutput> {
    const usage = this.#usage;
    const mayHaveContent = this.#hasContent || this.#rules.isShortened();
    const isCovered = !this.#lacksUsage && !this.#continues && !(this.#lacksOutput && mayHaveContent);
    const isWhole = this.#finished && isCovered;
    const stated = { ...(isWhole ? { usage } : uncovered(usage)), ...this.#terms };
    if (this.#error === undefined || isWhole) return { ...stated, finished: this.#finished };
    return { ...stated, finished: true, failed: true, ...(!this.#hasOutput && { error: this.#error }) };
  }
}
