import type { BatchChannel, BatchResult, Command } from "../src/ledger/commands.ts";
import type { Apply, OnWritten } from "./disk.ts";
import type { Owner, World } from "./world.ts";

/** Probability of each fault of a commit. */
export interface CommitFaults {
  /** The writer writes nothing, and reports that. */
  readonly unavailable: number;
  /** The writer dies before it writes. */
  readonly lost: number;
  /** The writer dies after it has written. Its caller cannot know that it has. */
  readonly unknown: number;
  /** The disk blocks for seconds. */
  readonly stalled: number;
}

export const faultlessCommits: CommitFaults = { unavailable: 0, lost: 0, unknown: 0, stalled: 0 };

/** Channel to the disk that delays, refuses or loses batches, or writes them without an answer. */
export class Commits {
  readonly #world: World;
  readonly #faults: () => CommitFaults;
  readonly #onWritten: OnWritten;
  /** Writes the batch that is in flight; null if there is none. */
  #inFlight: (() => Promise<void>) | null = null;

  constructor(world: World, faults: () => CommitFaults, onWritten: OnWritten) {
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

  /** Writes or discards the batch in flight at random, because both can happen in a crash. */
  async crash(): Promise<void> {
    const inFlight = this.#inFlight;
    this.#inFlight = null;
    if (inFlight === null || this.#world.chance.happens(0.5)) return;
    this.#world.note("the commit in flight is still written");
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
