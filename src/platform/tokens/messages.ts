import type { Encoding } from "../../ports/catalogue.ts";

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
export interface CountedJob {
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
