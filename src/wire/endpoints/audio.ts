import type { Endpoint } from "../endpoint.ts";
import { modelOf, unshown, type FormHead, type FormReading } from "../form.ts";
import { isObject } from "../json.ts";
import { outlineReader } from "../json-outline.ts";
import { servedModelOf, type ModelAnswer } from "../model-answer.ts";
import { invalid, lookAt, objectInFull, type ModelRequest, type ModelRequestResult, type PromptReading } from "../model-request.ts";
import { typedRefusalEvent } from "../refusals.ts";
import { RequestFields } from "../request-fields.ts";
import { readUsage, readUsageOf } from "../usage.ts";
import { unread } from "./images.ts";
import { mediaTranscript } from "./media-stream.ts";
import { noParts } from "../request-bounds.ts";

/** The fields of a request for speech. */
export const speechFields = new RequestFields({
  model: "priced",
  input: "priced",
  instructions: "priced",

  response_format: "free",
  speed: "free",
  stream_format: "free",
  voice: "free",
});

/** The fields of a request to write down what is said. */
export const transcriptionFields = new RequestFields({
  model: "priced",

  "include[]": "free",
  "timestamp_granularities[]": "free",
  chunking_strategy: "free",
  file: "free",
  language: "free",
  prompt: "free",
  response_format: "free",
  stream: "free",
  temperature: "free",
});

const oneAnswer = { ...noParts, choices: 1, outputLimit: null } as const;

const speechPrompt: PromptReading = {
  text(body) {
    const { input, instructions } = objectInFull(body);
    return { kind: "plain", texts: [input, instructions].filter((text) => typeof text === "string"), tokens: 0 };
  },
  bytesBeside: (body) => body.length,
};

export function readSpeechRequest(bytes: Buffer): ModelRequestResult {
  const look = lookAt(bytes, speechFields);
  if (!look.ok) return look;
  const { body, given } = look;
  const { input } = body;
  if (typeof input !== "string") return invalid("input", "'input' must be a text");
  const context = given.filter((name) => speechFields.meaningOf(name) === "context");
  const request: ModelRequest = {
    model: body.model,
    stream: body["stream_format"] === "sse",
    wantsStreamUsage: true,
    size: { ...oneAnswer, textBytes: bytes.length, unboundedFields: context },
    unboundedFields: [],
    classes: { prompt: ["input", "cached_input"], completion: ["output", "audio_output"] },
    prompt: speechPrompt,
    isUnseen: true,
    characters: charactersIn(bytes),
  };
  return { ok: true, request };
}

/** Characters of the text, as Unicode counts them. */
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
  const context = unshown(form, transcriptionFields);
  const request: ModelRequest = {
    model: model.model,
    stream: form.values.get("stream") === "true",
    wantsStreamUsage: true,
    // How long a sound is does not show in its bytes: the part is bounded by the catalogue, else the whole context is held.
    size: { ...oneAnswer, audioParts: 1, textBytes: form.bytes, unboundedFields: context },
    unboundedFields: form.isClear ? [] : ["form"],
    classes: { prompt: ["input", "cached_input", "audio_input"], completion: ["output", "reasoning"] },
    prompt: unread,
    isUnseen: true,
  };
  return { ok: true, request };
}

/** A transcription is sent as a form alone. */
function noForm(): ModelRequestResult {
  return invalid(null, "this path takes a form (multipart/form-data) with 'model' and 'file'");
}

/** Reads the outline of an answer: a long text is left out of it. A verbose one tells its duration without a usage, too. */
function readTranscript(body: unknown): ModelAnswer | undefined {
  if (!isObject(body)) return undefined;
  return {
    usage: readUsageOf(body) ?? readUsage({ type: "duration", seconds: body["duration"] }),
    servedModel: servedModelOf(body),
    texts: [],
    isAnswer: "text" in body,
  };
}

const form: FormReading = { fields: transcriptionFields, read: readTranscriptionForm };

function audioAt(route: string, of: Pick<Endpoint, "readRequest" | "form">, ending: string): Endpoint {
  return {
    route,
    ...of,
    answersMedia: true,
    answerReader: () => outlineReader(readTranscript),
    transcript: () => mediaTranscript([ending]),
    askForUsage: null,
    breakEvent: typedRefusalEvent,
  };
}

export const audioEndpoints: readonly Endpoint[] = [
  audioAt("/v1/audio/speech", { readRequest: readSpeechRequest, form: null }, "speech.audio.done"),
  audioAt("/v1/audio/transcriptions", { readRequest: noForm, form }, "transcript.text.done"),
  audioAt("/v1/audio/translations", { readRequest: noForm, form }, "transcript.text.done"),
];
