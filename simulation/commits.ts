import type { BatchChannel, BatchResult, Command } from "../src/ledger/commands.ts";
import type { Apply } from "./disk.ts";
import type { Owner, World } from "./world.ts";

/** Probabilities of the ways in which a commit fails. */
export interface CommitFaults {
  /** Nothing is written, and the writer says so. */
  readonly unavailable: number;
  /** The writer dies before it has written. */
  readonly lost: number;
  /** The writer dies after it has written: its caller cannot know. */
  readonly unknown: number;
  /** A disk that stands still for seconds. */
  readonly stalled: number;
}

export const soundCommits: CommitFaults = { unavailable: 0, lost: 0, unknown: 0, stalled: 0 };

/** The way to the disk, on which batches are delayed, refused, lost, or written without an answer. */
export class Commits {
  readonly #world: World;
  readonly #faults: () => CommitFaults;
  readonly #onWritten: (commands: readonly Command[], result: BatchResult) => void;
  /** The batch that a crash finds on its way. */
  #inFlight: (() => Promise<void>) | null = null;

  constructor(
    world: World,
    faults: () => CommitFaults,
    onWritten: (commands: readonly Command[], result: BatchResult) => void,
  ) {
    this.#world = world;
    this.#faults = faults;
    this.#onWritten = onWritten;
  }

  channel(owner: Owner, apply: Apply): BatchChannel {
    const write = async (commands: readonly Command[]): Promise<BatchResult> => {
      const result = await apply(commands);
      this.#onWritten(commands, result);
      return result;
    };
    return {
      apply: (commands) =>
        new Promise((resolve, reject) => {
          const { chance } = this.#world;
          const fault = this.#faults();
          const what = commands.map(([op, id]) => (typeof id === "string" ? `${op} ${id}` : op)).join(", ");
          const delayMs = chance.happens(fault.stalled) ? chance.between(1_000, 20_000) : chance.delayMs();
          this.#inFlight = async () => void (await write(commands));
          this.#world.after(owner, delayMs, `commit: ${what}`, () => {
            this.#inFlight = null;
            const answer = (how: string, then: () => void) => this.#world.soon(owner, `${how}: ${what}`, then);
            if (chance.happens(fault.unavailable)) {
              answer("refused", () => resolve(refused(commands)));
            } else if (chance.happens(fault.lost)) {
              answer("writer died before writing", () => reject(new Error("the writer died")));
            } else {
              const isUnknown = chance.happens(fault.unknown);
              void write(commands).then((result) =>
                isUnknown
                  ? answer("writer died after writing", () => reject(new Error("the writer died")))
                  : answer("written", () => resolve(result)),
              );
            }
          });
        }),
      close: async () => {},
    };
  }

  /** At a crash what is on its way may still be written, or not. */
  async crash(): Promise<void> {
    const inFlight = this.#inFlight;
    this.#inFlight = null;
    if (inFlight === null || this.#world.chance.happens(0.5)) return;
    this.#world.note("the commit under way is still written");
    await inFlight();
  }
}

function refused(commands: readonly Command[]): BatchResult {
  return {
    outcomes: commands.map(() => ({ kind: "unavailable", message: "simulated" })),
    seconds: 0.001,
    changed: false,
  };
}
