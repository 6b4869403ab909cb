import type { Usage } from "../../core/usage.ts";
import { isObject, parseJson } from "../json.ts";
import { JsonOutline } from "../json-outline.ts";
import { StreamTexts, StreamTranscript, type EventReading, type StreamAnswer, type Transcript } from "../stream-transcript.ts";
import { readUsageOf } from "../usage.ts";

/**
 * Remembers a stream of images or sound by its outline: of its data nothing is kept. It is whole with an event of one of
 * the types, which carries the usage.
 */
export function mediaTranscript(endings: readonly string[], usageOf: (usage: unknown) => unknown = (usage) => usage): Transcript {
  const reading = (): EventReading => new MediaReading(endings, usageOf);
  const transcript = new StreamTranscript({ lastEvents: () => undefined, reading });
  const outline = new JsonOutline((bytes) => transcript.push(Buffer.from(bytes)), { lines: true });
  return {
    push: (bytes) => outline.push(bytes),
    end: () => transcript.end(),
    everything: () => transcript.everything(),
  };
}

class MediaReading implements EventReading {
  readonly texts = new StreamTexts(undefined);
  readonly #endings: readonly string[];
  readonly #usageOf: (usage: unknown) => unknown;
  #usage: Usage | undefined;
  #finished = false;

  constructor(endings: readonly string[], usageOf: (usage: unknown) => unknown) {
    this.#endings = endings;
    this.#usageOf = usageOf;
  }

  event(data: string): void {
    const event = parseJson(data);
    if (!isObject(event) || !this.#endings.includes(String(event["type"]))) return;
    this.#finished = true;
    this.#usage = readUsageOf({ ...event, usage: this.#usageOf(event["usage"]) }) ?? this.#usage;
  }

  answer(): Omit<StreamAnswer, "texts"> {
    return { usage: this.#usage, servedModel: null, finished: this.#finished };
  }
}
