import { invalid } from "../../core/refusals.ts";
import { withSeconds } from "../../core/several-usages.ts";
import type { Usage } from "../../core/usage.ts";
import type { Endpoint } from "../endpoint.ts";
import { speechFields, transcriptionFields } from "../field-table.ts";
import { baseOf } from "../findings.ts";
import { inspectForm, type Form } from "../form.ts";
import { answerTerms, type ModelAnswer } from "../model-answer.ts";
import { isObject, listOr, objectOr, type JsonObject } from "../json.ts";
import { outlineReader } from "../json-outline.ts";
import {
  inspectBody,
  noParts,
  objectInFull,
  type ModelRequest,
  type ModelRequestResult,
  type PromptReader,
} from "../model-request.ts";
import { typedRefusalEvent } from "../refusals.ts";
import { readUsage, readUsageOf, secondsOf } from "../usage.ts";
import { mediaTranscript, uncounted, usageOfMedia } from "./images.ts";

const oneAnswer = { ...noParts, choices: 1, outputMax: null } as const;

const speechPrompt: PromptReader = {
  text(body) {
    const { input, instructions } = objectInFull(body);
    return { kind: "plain", texts: [input, instructions].filter((text) => typeof text === "string"), tokens: 0 };
  },
  bytesOutside: (body) => body.length,
};

function readSpeechRequest(bytes: Buffer): ModelRequestResult {
  const inspected = inspectBody(bytes, speechFields);
  if (!inspected.ok) return inspected;
  const { body, findings } = inspected;
  const { input } = body;
  if (typeof input !== "string") return invalid("input", "'input' must be a text");
  const request: ModelRequest = {
    model: body.model,
    stream: body["stream_format"] === "sse",
    wantsStreamUsage: true,
    size: { ...oneAnswer, textBytes: bytes.length, unboundedFields: findings.context },
    unboundedFields: findings.expensive,
    fields: findings,
    classes: { prompt: ["input", "cached_input"], completion: ["output", "audio_output"] },
    prompt: speechPrompt,
    isUnseen: true,
    characters: charactersIn(bytes),
  };
  return { ok: true, request };
}

/** Returns the number of Unicode characters in `input`; the number of bytes of the body if `input` cannot be read. */
function charactersIn(bytes: Buffer): number {
  const { input } = objectInFull(bytes);
  if (typeof input !== "string") return bytes.length;
  let characters = 0;
  for (const _ of input) characters++;
  return characters;
}

const recording = "file";
const media: ReadonlySet<string> = new Set([recording]);

function readTranscriptionForm(given: Form | undefined): ModelRequestResult {
  const inspected = inspectForm(given, transcriptionFields);
  if (!inspected.ok) return inspected;
  const { form, model, findings } = inspected;
  const request: ModelRequest = {
    model,
    stream: form.value("stream") === "true",
    wantsStreamUsage: true,
    // The gateway may bill more seconds than the file has. The catalogue may bound them; otherwise Farebox holds the
    // model's whole context.
    size: { ...oneAnswer, audioParts: 1, textBytes: form.textBytes(media), unboundedFields: findings.context },
    unboundedFields: findings.expensive,
    fields: findings,
    unread: findings.unread,
    classes: { prompt: ["input", "cached_input", "audio_input"], completion: ["output", "reasoning"] },
    prompt: uncounted,
    isUnseen: true,
    asksForText: asksForText(form),
    // The gateway could read another recording if the form had fields that Farebox does not know.
    ...(findings.unknown.length === 0 && { soundSeconds: () => form.secondsOf(recording) }),
  };
  return { ok: true, request };
}

/** Field with the format of a transcription, and its values for JSON. The other formats are text. */
const formatField = "response_format";
const jsonFormats: ReadonlySet<string> = new Set(["json", "verbose_json", "diarized_json"]);

/** Returns true unless all readers of the form see that it asks for JSON or events. */
function asksForText(form: Form): boolean {
  const formats = form.parts.filter(({ name }) => baseOf(name) === formatField);
  return !formats.every(({ name }) => formats.length === 1 && jsonFormats.has(form.value(name) ?? ""));
}

/** Refuses a JSON body, because a transcription must be requested with a form. */
function refuseJson(): ModelRequestResult {
  return invalid(null, "this path accepts only a form (multipart/form-data) with 'model' and 'file'");
}

/** Reads an answer from its outline, which omits long texts. */
function readTranscript(body: unknown, isShortened: boolean): ModelAnswer | undefined {
  if (!isObject(body)) return undefined;
  return {
    ...usageOfMedia(usageOfRecording(body), isShortened || body["text"] !== ""),
    ...answerTerms(body),
    texts: [],
    isAnswer: "text" in body,
  };
}

/** Reads the usage and the duration that an answer, or the last event of a stream, states. */
function usageOfRecording(body: JsonObject): Usage | undefined {
  const usage = readUsageOf(body, "sound");
  const stated = readUsage({ type: "duration", duration: body["duration"], seconds: body["seconds"] });
  const ends = [body["segments"], body["words"]].flatMap(listOr).map((part) => secondsOf(objectOr(part)["end"]) ?? 0);
  const isStated = stated !== undefined || usage?.unit === "second" || usage?.seconds !== undefined;
  // A recording may be longer than its last word, so the ends count only if nothing else is stated.
  const seconds = stated?.tokens.audio_input ?? (isStated ? 0 : Math.max(0, ...ends));
  return withSeconds(usage, { count: seconds > 0 ? seconds : undefined, contradicts: false });
}

function audioAt(
  route: string,
  readers: Pick<Endpoint, "fields" | "readRequest" | "readForm">,
  ending: string,
): Endpoint {
  return {
    route,
    ...readers,
    answersMedia: true,
    answerReader: () => outlineReader(readTranscript),
    transcript: () => mediaTranscript([ending], usageOfRecording),
    breakEvent: typedRefusalEvent,
  };
}

export const audioEndpoints: readonly Endpoint[] = [
  audioAt("/v1/audio/speech", { fields: speechFields, readRequest: readSpeechRequest }, "speech.audio.done"),
  audioAt(
    "/v1/audio/transcriptions",
    { fields: transcriptionFields, readRequest: refuseJson, readForm: readTranscriptionForm },
    "transcript.text.done",
  ),
  audioAt(
    "/v1/audio/translations",
    { fields: transcriptionFields, readRequest: refuseJson, readForm: readTranscriptionForm },
    "transcript.text.done",
  ),
];
