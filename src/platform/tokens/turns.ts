import type { Encoding } from "../../ports/catalogue.ts";
import { escapedPiece, pieceEnd } from "./cuts.ts";

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

/** Result of a job: the tokens of all its texts. */
interface CountedJob {
  readonly id: number;
  readonly tokens: number;
}

/** Message to the worker: all jobs that collected during its last turn. */
export type JobBatch = readonly CountJob[];

/** Message from the worker, after a turn that finished a job or received a batch. */
export interface TurnReport {
  readonly counted: readonly CountedJob[];
  /** True if the worker has received a batch since its last turn, so the main thread may send the next. */
  readonly ready: boolean;
}

/** UTF-16 units per turn for the shortest jobs, then for the oldest job. A turn takes 3-6 ms for prose, at most 80 ms. */
export const turnUnits = { shortest: 16_384, oldest: 8_192 } as const;

/** Fixed cost of a tokenizer call, in UTF-16 units. Keeps turns short when there are many tiny texts. */
const callUnits = 32;

interface RunningJob {
  readonly job: CountJob;
  /** Units still to count, including the fixed cost of the calls. */
  remaining: number;
  textIndex: number;
  offset: number;
  tokens: number;
}

/**
 * Shares one thread among jobs. A turn counts the shortest remaining jobs first, so that a short text waits at most one
 * turn for a long text. It then counts a part of the oldest job, so that a long text always progresses.
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
  take(): CountedJob[] {
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

  /** Counts about `units` of a job, or up to its limit. Removes the job if it is finished. Returns the units spent. */
  #advance(running: RunningJob, units: number, counted: CountedJob[]): number {
    const { texts, encoding, atMost, escapedFrom } = running.job;
    let spent = 0;
    while (spent < units && running.textIndex < texts.length && running.tokens < atMost) {
      const text = texts[running.textIndex] ?? "";
      const end = pieceEnd(text, running.offset);
      const written = text.slice(running.offset, end);
      const piece = running.textIndex < escapedFrom ? written : escapedPiece(written);
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
