import { parseJson } from "./json.ts";
import type { StreamOutput, TextReport } from "./stream-output.ts";

/** Longest event that is compared with the pattern, in UTF-16 units. Longer events are rare. */
const unitsMax = 16 * 1024;

/**
 * Reads events that equal the events before them except for one text, as most events of a stream do. Such an event
 * needs no parser, because the rest of it was parsed before and has no further effect.
 *
 * Two parsed events in a row make a pattern if each reports exactly its text, and the texts differ. Then the text is a
 * value of its own, and no other part of the event depends on it. An event that does not follow the pattern ends it,
 * because it may change the effect of the rest.
 */
export class EventPattern {
  /** JSON before and after the text, with its quotes. */
  #before = "";
  #after = "";
  #latest: TextReport = { text: "", key: 0, choice: 0 };
  #isConfirmed = false;

  /** Reads an event that follows the pattern. Returns false if the event must be parsed. */
  read(data: string, output: StreamOutput): boolean {
    const text = this.#isConfirmed ? this.#textOf(data) : "";
    if (text === "") return false;
    output.text(text, this.#latest.key, this.#latest.choice);
    return true;
  }

  /** Notes an event that was parsed. `only`: the text, if the event reported nothing else. */
  parsed(data: string, only: TextReport | undefined): void {
    this.#isConfirmed = only !== undefined && only.text !== this.#latest.text && this.#textOf(data) === only.text;
    if (!this.#isConfirmed) this.#begin(data, only);
  }

  #begin(data: string, only: TextReport | undefined): void {
    this.#before = "";
    if (only === undefined || only.text === "" || data.length > unitsMax) return;
    const quoted = `"${only.text}"`;
    const at = data.indexOf(quoted);
    if (at === -1) return;
    this.#before = data.slice(0, at + 1);
    this.#after = data.slice(at + quoted.length - 1);
    this.#latest = only;
  }

  /** Returns the text of an event that follows the pattern; "" for any other event. */
  #textOf(data: string): string {
    const [before, after] = [this.#before, this.#after];
    const end = data.length - after.length;
    if (before === "" || end < before.length || data.length > unitsMax) return "";
    if (data.slice(0, before.length) !== before || data.slice(end) !== after) return "";
    // A text with its quotes is JSON. A mere part of the data would keep all data in memory.
    const text = parseJson(data.slice(before.length - 1, end + 1));
    return typeof text === "string" ? text : "";
  }
}
