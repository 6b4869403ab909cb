import type { Usage } from "../../core/usage.ts";
import { answerTerms, type AnswerTerms } from "../model-answer.ts";
import { isObject, parseJson, textOr } from "../json.ts";
import { JsonOutline } from "../json-outline.ts";
import type { Written } from "../output-walk.ts";
import { StreamOutput } from "../stream-output.ts";
import { StreamTranscript, type EventReader, type StreamAnswer, type Transcript } from "../stream-transcript.ts";
import { readUsageOf } from "../usage.ts";

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
