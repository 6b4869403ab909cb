import { invalid } from "../../core/refusals.ts";
import type { Endpoint } from "../endpoint.ts";
import { speechFields, transcriptionFields } from "../field-table.ts";
import { formFindings, modelDoubtOf, modelOf, type FormHead, type FormReader } from "../form.ts";
import { answerTerms, type ModelAnswer } from "../model-answer.ts";
import { isObject } from "../json.ts";
import { outlineReader } from "../json-outline.ts";
import {
  inspectBody,
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

/** Returns the number of Unicode characters in `input`; the number of bytes of the body if `input` cannot be read. */
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
    // The bytes do not show the duration of the audio. The catalogue may bound it; otherwise Farebox holds the model's
    // whole context.
    size: { ...oneAnswer, audioParts: 1, textBytes: form.bytes, unboundedFields: findings.context },
    unboundedFields: form.isClear ? findings.expensive : [...findings.expensive, "form"],
    fields: findings,
    classes: { prompt: ["input", "cached_input", "audio_input"], completion: ["output", "reasoning"] },
    prompt: uncounted,
    isUnseen: true,
    modelDoubt: modelDoubtOf(form),
  };
  return { ok: true, request };
}

/** Refuses a JSON body, because a transcription must be requested with a form. */
function refuseJson(): ModelRequestResult {
  return invalid(null, "this path accepts only a form (multipart/form-data) with 'model' and 'file'");
}

/** Reads an answer from its outline, which omits long texts. Uses the duration if the answer states no usage. */
function readTranscript(body: unknown): ModelAnswer | undefined {
  if (!isObject(body)) return undefined;
  return {
    usage: readUsageOf(body) ?? readUsage({ type: "duration", seconds: secondsOf(body["duration"]) }),
    ...answerTerms(body),
    texts: [],
    isAnswer: "text" in body,
  };
}

/**
 * Returns the duration of a `verbose_json` answer, in seconds. Converts a duration that is stated as text: "8.47".
 * Returns any other value unchanged.
 */
function secondsOf(duration: unknown): unknown {
  return typeof duration === "string" && /^\d+(?:\.\d+)?$/.test(duration) ? Number(duration) : duration;
}

const form: FormReader = { fields: transcriptionFields, read: readTranscriptionForm };

function audioAt(route: string, of: Pick<Endpoint, "fields" | "readRequest" | "form">, ending: string): Endpoint {
  return {
    route,
    ...of,
    answersMedia: true,
    answerReader: () => outlineReader(readTranscript),
    transcript: () => mediaTranscript([ending]),
    breakEvent: typedRefusalEvent,
  };
}

export const audioEndpoints: readonly Endpoint[] = [
  audioAt("/v1/audio/speech", { fields: speechFields, readRequest: readSpeechRequest }, "speech.audio.done"),
  audioAt(
    "/v1/audio/transcriptions",
    { fields: transcriptionFields, readRequest: refuseJson, form },
    "transcript.text.done",
  ),
  audioAt(
    "/v1/audio/translations",
    { fields: transcriptionFields, readRequest: refuseJson, form },
    "transcript.text.done",
  ),
];
