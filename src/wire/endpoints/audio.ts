import type { Endpoint } from "../endpoint.ts";
import { speechFields, transcriptionFields } from "../field-table.ts";
import { formFindings, modelOf, type FormHead, type FormReader } from "../form.ts";
import { answerTerms, type ModelAnswer } from "../model-answer.ts";
import { isObject } from "../json.ts";
import { outlineReader } from "../json-outline.ts";
import {
  inspectBody,
  invalid,
  noParts,
  objectInFull,
  tooManyNames,
  type ModelRequest,
  type ModelRequestResult,
  type PromptReader,
} from "../model-request.ts";
import { typedRefusalEvent } from "../refusals.ts";
import { readUsage, readUsageOf } from "../usage.ts";
import { mediaTranscript, uncounted } from "./images.ts";

const oneAnswer = { ...noParts, choices: 1, outputLimit: null } as const;

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

/** Returns the number of Unicode characters of the text. */
function charactersIn(bytes: Buffer): number {
  const { input } = objectInFull(bytes);
  if (typeof input !== "string") return bytes.length;
  let characters = 0;
  for (const _ of input) characters++;
  return characters;
}

function readTranscriptionForm(form: FormHead): ModelRequestResult {
  const model = modelOf(form, transcriptionFields);
  if (!model.ok) return model;
  const findings = formFindings(form, transcriptionFields);
  if (findings === undefined) return tooManyNames;
  const request: ModelRequest = {
    model: model.model,
    stream: form.values.get("stream") === "true",
    wantsStreamUsage: true,
    // The bytes do not show the duration of a sound. The catalogue bounds the part; otherwise the whole context is held.
    size: { ...oneAnswer, audioParts: 1, textBytes: form.bytes, unboundedFields: findings.context },
    unboundedFields: form.isClear ? findings.expensive : [...findings.expensive, "form"],
    fields: findings,
    classes: { prompt: ["input", "cached_input", "audio_input"], completion: ["output", "reasoning"] },
    prompt: uncounted,
    isUnseen: true,
  };
  return { ok: true, request };
}

/** Refuses a JSON body: a transcription must be a form. */
function noForm(): ModelRequestResult {
  return invalid(null, "this path takes a form (multipart/form-data) with 'model' and 'file'");
}

/** Reads the outline of an answer, which omits a long text. A verbose answer states its duration even without a usage. */
function readTranscript(body: unknown): ModelAnswer | undefined {
  if (!isObject(body)) return undefined;
  return {
    usage: readUsageOf(body) ?? readUsage({ type: "duration", seconds: body["duration"] }),
    ...answerTerms(body),
    texts: [],
    isAnswer: "text" in body,
  };
}

const form: FormReader = { fields: transcriptionFields, read: readTranscriptionForm };

function audioAt(route: string, of: Pick<Endpoint, "fields" | "readRequest" | "form">, ending: string): Endpoint {
  return {
    route,
    ...of,
    answersMedia: true,
    answerReader: () => outlineReader(readTranscript),
    transcript: () => mediaTranscript([ending]),
    maximum: null,
    askForUsage: null,
    breakEvent: typedRefusalEvent,
  };
}

export const audioEndpoints: readonly Endpoint[] = [
  audioAt(
    "/v1/audio/speech",
    { fields: speechFields, readRequest: readSpeechRequest, form: null },
    "speech.audio.done",
  ),
  audioAt(
    "/v1/audio/transcriptions",
    { fields: transcriptionFields, readRequest: noForm, form },
    "transcript.text.done",
  ),
  audioAt("/v1/audio/translations", { fields: transcriptionFields, readRequest: noForm, form }, "transcript.text.done"),
];
