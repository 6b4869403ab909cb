import type { Encoding } from "../../ports/catalogue.ts";

/** Texts to count together: a single text, or the texts of one chat. */
export interface CountJob {
  readonly id: number;
  readonly encoding: Encoding;
  readonly texts: readonly string[];
  /** Index of the first text to count with non-ASCII characters as `\u` escapes; all later texts are escaped too. */
  readonly escapedFrom: number;
  /** Largest number of tokens to count. A longer job counts as this many. */
  readonly atMost: number;
}

/** Result of a job: the tokens of all its texts together, at most its `atMost`. */
interface CountedJob {
  readonly id: number;
  readonly tokens: number;
}

/** Message to the worker: all jobs that were added since the previous message. */
export type JobBatch = readonly CountJob[];

/** Message from the worker, after a turn that finished a job or received a batch. */
export interface TurnReport {
  readonly counted: readonly CountedJob[];
  /** True if the worker has received a batch since its previous report, so the main thread may send the next batch. */
  readonly ready: boolean;
}

/**
 * Number of UTF-16 units that a turn counts: first of the shortest jobs, then of the oldest job. A turn takes 3-6 ms
 * for prose, and at most 80 ms.
 */
export const turnUnits = { shortest: 16_384, oldest: 8_192 } as const;

/** Fixed cost of a tokenizer call, in UTF-16 units. Keeps turns short if there are many tiny texts. */
const callUnits = 32;

interface RunningJob {
  readonly job: CountJob;
  /** Number of units that are left to count, including the fixed cost of the calls. */
  remaining: number;
  textIndex: number;
  offset: number;
  tokens: number;
}

/**
 * Shares one thread among jobs. A turn first counts the shortest remaining jobs, so that a short text waits at most one
 * turn for a long text. It then counts a part of the oldest job, so that a long text always makes progress.
 */
export class Turns {
  readonly #countPiece: (piece: string, encoding: Encoding) => number;
  /** Sorted from the shortest to the longest at the start of each turn. */
  readonly #running: RunningJob[] = [];

  constructor(countPiece: (piece: string, encoding: Encoding) => number) {
    this.#countPiece = countPiece;
  }

  get idle(): boolean {
    return this.#running.length === 0;
  }

  add(jobs: readonly CountJob[]): void {
    for (const job of jobs) {
      this.#running.push({ job, remaining: unitsOf(job.texts), textIndex: 0, offset: 0, tokens: 0 });
    }
  }

  /** Runs one turn. Returns the jobs that it finished. */
  run(): CountedJob[] {
    const counted: CountedJob[] = [];
    this.#running.sort((a, b) => a.remaining - b.remaining);
    let budget = turnUnits.shortest;
    while (budget > 0) {
      const shortest = this.#running[0];
      if (shortest === undefined) return counted;
      budget -= this.#advance(shortest, budget, counted);
    }
    const oldest = this.#oldest();
    if (oldest !== undefined) this.#advance(oldest, turnUnits.oldest, counted);
    return counted;
  }

  #oldest(): RunningJob | undefined {
    let oldest = this.#running[0];
    for (const each of this.#running) if (oldest === undefined || each.job.id < oldest.job.id) oldest = each;
    return oldest;
  }

  /**
   * Counts about `units` of a job, up to its limit. Removes the job if it is finished. Returns the number of units
   * spent.
   */
  #advance(running: RunningJob, units: number, counted: CountedJob[]): number {
    const { texts, encoding, atMost, escapedFrom } = running.job;
    let spent = 0;
    while (spent < units && running.textIndex < texts.length && running.tokens < atMost) {
      const text = texts[running.textIndex] ?? "";
      const end = pieceEnd(text, running.offset);
      const unescaped = text.slice(running.offset, end);
      const piece = running.textIndex < escapedFrom ? unescaped : escapedPiece(unescaped);
      if (piece !== "") running.tokens += this.#countPiece(piece, encoding);
      spent += piece.length + callUnits;
      running.offset = end;
      if (end < text.length) continue;
      running.textIndex += 1;
      running.offset = 0;
    }
    running.remaining -= spent;
    if (running.textIndex === texts.length || running.tokens >= atMost) {
      this.#running.splice(this.#running.indexOf(running), 1);
      counted.push({ id: running.job.id, tokens: Math.min(running.tokens, atMost) });
    }
    return spent;
  }
}

function unitsOf(texts: readonly string[]): number {
  return texts.reduce((units, text) => units + text.length + callUnits, 0);
}

/**
 * Matches a character after which a text can be cut without changing its token count: a letter or digit that no letter,
 * digit, mark or apostrophe follows. The regular expressions of o200k_base and cl100k_base always split there. After a
 * letter that is new in Unicode 17, a cut may change the count by one token, because tiktoken 1.0.22 does not know it.
 *
 * Pieces must be short. If the tokenizer's regular expression cannot split a piece, its time grows with the square of
 * the piece's length. One piece of 1M letters panics the WASM module.
 */
const safeEnd = /[\p{L}\p{N}](?![\p{L}\p{N}\p{M}'’])/u;

/** Shortest piece before a safe cut, in UTF-16 units. */
export const pieceUnitsMin = 512;
/** Longest piece, in UTF-16 units. A piece without a safe cut has this length, which adds at most a few tokens. */
export const pieceUnitsMax = 1024;

/** Returns the end of the piece that begins at `start`. The end is at most `pieceUnitsMax` after `start`. */
export function pieceEnd(text: string, start: number): number {
  const last = start + pieceUnitsMax;
  if (last >= text.length) return text.length;
  const from = start + pieceUnitsMin;
  // Two extra units, so that the search sees the whole character after the last possible cut.
  const found = safeEnd.exec(text.slice(from, last + 2));
  if (found !== null) {
    const cut = from + found.index + found[0].length;
    if (cut <= last) return cut;
  }
  return splitsPair(text, last) ? last - 1 : last;
}

/** Writes non-ASCII characters as `\u` escapes, which the tokenizer's regular expression always splits. */
function escapedPiece(piece: string): string {
  return piece.replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function splitsPair(text: string, at: number): boolean {
  return isBetween(text.charCodeAt(at - 1), 0xd800, 0xdbff) && isBetween(text.charCodeAt(at), 0xdc00, 0xdfff);
}

function isBetween(unit: number, low: number, high: number): boolean {
  return unit >= low && unit <= high;
}
