import { reportedUsage, textOf } from "./answer.ts";
import type { Consumption } from "./billing.ts";
import { charge, type Call } from "./call.ts";
import { accept, answerOrFault } from "./chat.ts";
import type { Fields } from "./chat-request.ts";
import { plainConsumption } from "./consumption.ts";
import { readForm } from "./form.ts";
import { writeMediaEvents } from "./media-events.ts";
import { writeAnswer, writeJson } from "./plain.ts";
import { digest, randomFrom } from "./random.ts";
import { numberOf } from "./scenarios.ts";
import { countTokens, prose } from "./text.ts";

const bytesPerCharacter = 600;
/** Number of bytes in one second of audio, in any format. */
const bytesPerSecond = 16_000;
const tokensPerSecond = 10;

/** Serves `POST /v1/audio/speech`: answers with noise whose length depends on the text. */
export async function serveSpeech(asked: Call): Promise<void> {
  const accepted = accept(asked, () => readForm(asked, "input"));
  if (accepted === undefined) return undefined;
  const { call, request } = accepted;
  const input = String(request.fields["input"] ?? "");
  const characters = [...input].length;
  const isByCharacter = request.model.startsWith("tts-");
  const tokens = {
    input_tokens: countTokens(input),
    output_tokens: characters,
    total_tokens: countTokens(input) + characters,
  };
  // tts is priced per character, so the token fields of its bill contain characters.
  const used = isByCharacter
    ? { promptTokens: characters }
    : { promptTokens: tokens.input_tokens, completionTokens: tokens.output_tokens };
  const consumption = plainConsumption(call, { model: request.model, ...used });
  const sound = Buffer.alloc(characters * bytesPerCharacter, digest(call.shared.options.seed, input));
  const isStream = request.fields["stream_format"] === "sse";
  return answerOrFault(call, isStream, consumption, () => {
    if (isStream) return writeMediaEvents(call, consumption, speechEvents(sound, tokens));
    charge(call, consumption);
    return writeAnswer(call, "audio/mpeg", sound);
  });
}

function* speechEvents(sound: Buffer, usage: Fields): Generator<Fields> {
  for (let from = 0; from < sound.length; from += 8192)
    yield { type: "speech.audio.delta", audio: sound.toString("base64", from, from + 8192) };
  yield { type: "speech.audio.done", usage };
}

/**
 * Serves `POST /v1/audio/transcriptions` and `translations`: answers with prose whose length depends on the recording.
 */
export async function serveTranscription(asked: Call): Promise<void> {
  const accepted = accept(asked, () => {
    const form = readForm(asked, "prompt");
    if (typeof form === "string") return form;
    const file = form.files.find(({ name }) => name === "file");
    return file === undefined ? "file is a required property" : { ...form, file };
  });
  if (accepted === undefined) return undefined;
  const { call, request } = accepted;
  const transcript = transcribe(call, request.model, request.file.bytes.length);
  return answerOrFault(call, transcript.isStream(request.fields), transcript.consumption, () =>
    writeTranscript(call, request.fields, transcript),
  );
}

interface Transcript {
  readonly text: string;
  readonly seconds: number;
  readonly usage: Fields;
  readonly consumption: Consumption;
  isStream(fields: Fields): boolean;
}

function transcribe(call: Call, model: string, bytes: number): Transcript {
  const seconds = Math.ceil(bytes / bytesPerSecond);
  const outputTokens = numberOf(call.scenario, "tokens") ?? Math.min(Math.max(seconds * 3, 5), 500);
  const pieces = prose(randomFrom(digest(call.shared.options.seed, call.seen.body)))
    .take(outputTokens)
    .toArray();
  const text = textOf({ pieces });
  const isByDuration = model.startsWith("whisper");
  const audioTokens = seconds * tokensPerSecond;
  // whisper is priced per second, so the token fields of its bill contain seconds.
  const used = isByDuration
    ? { promptTokens: seconds, partTokens: seconds }
    : { promptTokens: audioTokens, partTokens: audioTokens, completionTokens: outputTokens };
  const tokens = {
    type: "tokens",
    input_tokens: audioTokens,
    input_token_details: { text_tokens: 0, audio_tokens: audioTokens },
    output_tokens: outputTokens,
    total_tokens: audioTokens + outputTokens,
  };
  return {
    text,
    seconds,
    usage: isByDuration ? { type: "duration", seconds } : tokens,
    consumption: plainConsumption(call, { model, ...used }),
    isStream: (fields) => String(fields["stream"]) === "true" && !isByDuration,
  };
}

function writeTranscript(
  call: Call,
  fields: Fields,
  { text, seconds, usage, consumption, isStream }: Transcript,
): Promise<void> {
  if (isStream(fields)) return writeMediaEvents(call, consumption, transcriptEvents(text, usage));
  charge(call, consumption);
  const reported = reportedUsage(call.scenario, usage);
  const format = String(fields["response_format"] ?? "json");
  if (format === "json") return writeJson(call, { text, usage: reported });
  if (format === "verbose_json")
    return writeJson(call, {
      task: "transcribe",
      language: "english",
      duration: seconds,
      text,
      segments: [],
      usage: reported,
    });
  const timed = `1\n00:00:00,000 --> 00:00:${String(seconds).padStart(2, "0")},000\n${text}\n`;
  return writeAnswer(call, "text/plain; charset=utf-8", Buffer.from(format === "text" ? `${text}\n` : timed));
}

function* transcriptEvents(text: string, usage: Fields): Generator<Fields> {
  for (const delta of text.split(/(?= )/)) yield { type: "transcript.text.delta", delta };
  yield { type: "transcript.text.done", text, usage };
}
