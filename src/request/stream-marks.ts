import { everyKey, type BurstMark, type StreamKind } from "../core/slices.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Charging } from "../ports/ledger.ts";
import type { Log } from "../ports/log.ts";

/** Time for which marks are used after they were read, in milliseconds. */
const freshMs = 1_000;

/** Time after a recorded burst in which further bursts for the same key are not recorded, in milliseconds. */
const recordedMs = 60_000;

interface MarkDeps {
  readonly ledger: Charging;
  readonly clock: Clock;
  readonly events: Pick<Events, "streamBurst">;
  readonly log: Log;
  /** Takes over work that continues after the answer, so that a shutdown can wait for it. */
  readonly background: (work: Promise<void>) => void;
}

/** Finds and records models whose answers arrive all at once: docs/decisions/0013-a-burst-marks-a-model.md. */
export class StreamMarks {
  readonly #deps: MarkDeps;
  #marks: readonly BurstMark[] = [];
  #readAt = -Infinity;
  #reading: Promise<boolean> | undefined;

  constructor(deps: MarkDeps) {
    this.#deps = deps;
  }

  /**
   * Returns true if the whole cost of the model's answers to a key must be held, or if the marks cannot be read. Reads
   * the ledger at most once a second, except after a failed read.
   */
  isMarked(key: string, model: string): boolean | Promise<boolean> {
    if (this.#deps.clock.monotonic() - this.#readAt < freshMs) return this.#hasMark(key, model);
    this.#reading ??= this.#read();
    // If the ledger cannot be read, the whole cost is held.
    return this.#reading.then((isRead) => !isRead || this.#hasMark(key, model));
  }

  /** Records whether a watched stream was live or a burst. Records a burst once a minute for each key and model. */
  record(key: string, model: string, kind: StreamKind): void {
    if (kind === "burst") this.#deps.events.streamBurst({ model });
    if (kind === "live" || !this.#isRecorded(key, model)) this.#deps.background(this.#store(key, model, kind));
  }

  #hasMark(key: string, model: string): boolean {
    return this.#marks.some((mark) => mark.model === model && (mark.key === key || mark.key === everyKey));
  }

  async #read(): Promise<boolean> {
    const { ledger, clock } = this.#deps;
    const askedAt = clock.monotonic();
    const result = await ledger.burstMarks(null, clock.now()).finally(() => (this.#reading = undefined));
    if (!result.ok) return false;
    this.#marks = result.marks;
    this.#readAt = askedAt;
    return true;
  }

  /** Returns true if recording another burst would change nothing but the time of the last one. */
  #isRecorded(key: string, model: string): boolean {
    const now = this.#deps.clock.now();
    return this.#marks.some(
      (mark) => mark.key === key && mark.model === model && mark.live === 0 && Math.abs(now - mark.at) < recordedMs,
    );
  }

  async #store(key: string, model: string, kind: StreamKind): Promise<void> {
    const { ledger, clock, log } = this.#deps;
    const result = await ledger.burstMarks({ key, model, kind }, clock.now());
    if (result.ok) this.#marks = result.marks;
    if (kind === "live") return;
    const forAll = this.#marks.some((mark) => mark.model === model && mark.key === everyKey);
    log.warn(
      { model, key, for_all_keys: forAll },
      "a streamed answer of this model arrived all at once; the whole cost of its answers is held for at least an hour",
    );
  }
}
