import type { Usage } from "../core/usage.ts";
import { isObject, jsonOf, type JsonObject } from "./json.ts";
import type { Known, Meaning, Shape } from "./output-members.ts";

/** Receives what an answer carries. `at` is the path of the member, with a dot between names. */
export interface OutputSink {
  text(text: string, at: string): void;
  /** A member that is not known, or that has another type than it should. */
  unknown(bytes: number, at: string, value: unknown): void;
  sealed(bytes: number, at: string): void;
  media(): void;
}

/** Output that no tokenizer counts. */
interface Uncountable {
  /** Bytes whose meaning is not known. */
  readonly unknownBytes: number;
  /** Bytes of encrypted reasoning and signatures. */
  readonly sealedBytes: number;
  /** True if images or sound came. */
  readonly hasMedia: boolean;
}

/** Collects what a whole answer carries. */
export class CollectedOutput implements OutputSink {
  readonly texts: string[] = [];
  #unknownBytes = 0;
  #sealedBytes = 0;
  #hasMedia = false;

  text(text: string): void {
    this.texts.push(text);
  }

  unknown(bytes: number): void {
    this.#unknownBytes += bytes;
  }

  sealed(bytes: number): void {
    this.#sealedBytes += bytes;
  }

  media(): void {
    this.#hasMedia = true;
  }

  get found(): Written {
    return writtenOf(this.texts, {
      unknownBytes: this.#unknownBytes,
      sealedBytes: this.#sealedBytes,
      hasMedia: this.#hasMedia,
    });
  }
}

/** All that an answer carries; `uncountable` is absent where it is text alone. */
export interface Written {
  readonly texts: readonly string[];
  readonly uncountable?: Uncountable;
}

export function writtenOf(texts: readonly string[], uncountable: Uncountable): Written {
  const { unknownBytes, sealedBytes, hasMedia } = uncountable;
  return unknownBytes > 0 || sealedBytes > 0 || hasMedia ? { texts, uncountable } : { texts };
}

/** Reports that a usage covers the output. A usage in seconds does not cover a text. */
export function coversOutput(usage: Usage | undefined): boolean {
  return usage !== undefined && (usage.unit ?? "token") === "token";
}

/** Reports all that a value carries, by what its member is known to be. A list counts by its elements. */
export function walkOutput(value: unknown, known: Known | undefined, at: string, sink: OutputSink): void {
  if (known === "free" || value === null || value === undefined) return;
  if (typeof value === "string") {
    if (value !== "") walkString(value, typeof known === "object" ? known.string : known, at, sink);
  } else if (typeof value === "object") {
    if (known === undefined) sink.unknown(bytesOf(value), at, value);
    else if (known === "json") walkJson(value, at, sink);
    else if (Array.isArray(value)) walkList(value, known, at, sink);
    else if (typeof known === "object") walkMembers(value as JsonObject, known, at, sink);
    else if (known === "media") sink.media();
    else if (known === "sealed") sink.sealed(bytesOf(value), at);
    else sink.unknown(bytesOf(value), at, value);
  }
}

/** Reports the members of an object. */
export function walkMembers(object: JsonObject, { members, copies }: Shape, at: string, sink: OutputSink): void {
  let once: CopyFilter | undefined;
  for (const name in object) {
    const value = object[name];
    const known = members[name];
    if (known === "free" || value === null || value === "") continue;
    const path = at === "" ? name : `${at}.${name}`;
    if (copies?.has(name) === true) (once ??= new CopyFilter(sink)).member(value, known, path);
    else walkOutput(value, known, path, sink);
  }
}

function walkString(value: string, meaning: Meaning | undefined, at: string, sink: OutputSink): void {
  switch (meaning) {
    case "text":
    case "json":
      return sink.text(value, at);
    case "media":
      return sink.media();
    case "sealed":
      return sink.sealed(Buffer.byteLength(value), at);
    case "free":
      return;
    case undefined:
      return sink.unknown(Buffer.byteLength(value), at, value);
  }
}

/** Lists within lists are not known, so that their depth costs no stack. */
function walkList(list: readonly unknown[], known: Known, at: string, sink: OutputSink): void {
  list.forEach((element, index) =>
    walkOutput(element, Array.isArray(element) ? undefined : known, `${at}.${index}`, sink),
  );
}

/** Reports a text that came as the object it represents. */
function walkJson(value: object, at: string, sink: OutputSink): void {
  const text = jsonOf(value);
  if (text === undefined) sink.unknown(bytesOf(value), at, value);
  else sink.text(text, at);
}

/** Returns the bytes of all strings within, with their names and numbers; 0 without a string. Not recursive. */
function bytesOf(value: unknown): number {
  let strings = 0;
  let others = 0;
  const open = [value];
  for (let next = open.pop(); open.length > 0 || next !== undefined; next = open.pop()) {
    if (typeof next === "string") strings += Buffer.byteLength(next);
    else if (typeof next === "number") others += String(next).length;
    else if (Array.isArray(next)) for (const element of next) open.push(element);
    else if (isObject(next)) {
      for (const name in next) {
        others += Buffer.byteLength(name);
        open.push(next[name]);
      }
    }
  }
  return strings === 0 ? 0 : strings + others;
}

/**
 * Reports members that repeat each other. A text counts as often as in the member that has it most often; a member with
 * the same joined text as another counts once.
 */
class CopyFilter {
  readonly #sink: OutputSink;
  readonly #reported = new Map<string, number>();
  readonly #wholes = new Set<string>();

  constructor(sink: OutputSink) {
    this.#sink = sink;
  }

  member(value: unknown, known: Known | undefined, at: string): void {
    const sink = this.#sink;
    const texts: [string, string][] = [];
    walkOutput(value, known, at, {
      text: (text, path) => void texts.push([text, path]),
      unknown: (bytes, path, found) => sink.unknown(bytes, path, found),
      sealed: (bytes, path) => sink.sealed(bytes, path),
      media: () => sink.media(),
    });
    const whole = texts.length === 1 ? (texts[0]?.[0] ?? "") : texts.map(([text]) => text).join("");
    if (texts.length === 0 || this.#wholes.has(whole)) return;
    this.#wholes.add(whole);
    const here = new Map<string, number>();
    for (const [text, path] of texts) {
      const times = (here.get(text) ?? 0) + 1;
      here.set(text, times);
      if (times <= (this.#reported.get(text) ?? 0)) continue;
      this.#reported.set(text, times);
      sink.text(text, path);
    }
  }
}
