import type { Encoding } from "../../ports/catalogue.ts";
import { escapedPiece, pieceEnd } from "./cuts.ts";

/** Texts to count together: one text, or those of one chat. */
export interface CountJob {
  readonly id: number;
  readonly encoding: Encoding;
  readonly texts: readonly string[];
  /** Texts from this one on are counted with all but ASCII written as `\u` escapes. */
  readonly escapedFrom: number;
  /** Most tokens to count: a longer text counts as this many. */
  readonly atMost: number;
}

/** The tokens of all of a job's texts. */
interface CountedJob {
  readonly id: number;
  readonly tokens: number;
}

/** Main thread to worker: all jobs that gathered while the worker was at its last turn. */
export type JobBatch = readonly CountJob[];

/** Worker to main thread, after a turn that finished something or took a batch in. */
export interface TurnReport {
  readonly counted: readonly CountedJob[];
  /** A batch was taken in during this turn: the next may come. */
  readonly ready: boolean;
}

/** UTF-16 units that one turn spends on the shortest jobs, and then on the oldest: 3-6 ms of prose, 80 ms at the worst. */
export const turnUnits = { shortest: 16_384, oldest: 8_192 } as const;

/** What a call of the tokenizer costs beside the length of its piece, in units; keeps turns short for many tiny texts. */
const callUnits = 32;

interface RunningJob {
  readonly job: CountJob;
  /** Units still to count, calls included. */
  remaining: number;
  textIndex: number;
  offset: number;
  tokens: number;
}

/**
 * Shares one thread among jobs. A turn works on the shortest remaining job first, so that a short text never waits for
 * a long one by more than a turn; then it gives a share to the oldest, so that a long one always moves on.
 */
export class Turns {
  readonly #countPiece: (piece: string, encoding: Encoding) => number;
  /** From the shortest to the longest once a turn has begun. */
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

  /** Works for one turn; returns the jobs that it finished. */
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

  /** Counts up to about `units` of a job, or to its limit, and takes it off the list when it is finished; returns the units spent. */
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
