import type { Clock, Timer } from "../ports/clock.ts";
import { parseJson, withoutByteOrderMark } from "../wire/json.ts";
import { SseReader } from "../wire/sse.ts";
import type { ResponseEnding } from "./response.ts";

/** Largest beginning that is held, in bytes. */
const heldBytesMax = 64 * 1024;

/** Rules for the beginning of an answer with a success status. */
export interface BeginningRules {
  /** Time for which the beginning may be held, in milliseconds since the request was sent; 0 to only read it. */
  readonly heldMs: number;
  /**
   * Decides on the first JSON of an answer: the data of an event, or a whole answer that is held. `open`: the next
   * event decides. An ending withholds the answer from its client, which is possible only if it `isHeld`.
   */
  judge(first: object, answer: BegunAnswer): "pass" | "open" | ResponseEnding;
}

interface BegunAnswer {
  readonly isHeld: boolean;
  /** True if the answer is complete and contains no later JSON. */
  readonly isWhole: boolean;
}

interface BeginningDeps {
  readonly rules: BeginningRules;
  readonly clock: Clock;
  /** Returns the milliseconds since the request was sent. */
  ranMs(): number;
  /** Begins the answer to the client. */
  begin(): void;
  /** Passes bytes on. */
  pass(bytes: Buffer, isLast: boolean): void;
  /** Ends the call. The client gets none of the answer. */
  withhold(ending: ResponseEnding): void;
  /** Receives an error that a timer threw. */
  fault(error: unknown): void;
}

/**
 * Holds an answer back until its first JSON is known, for a limited time and size. Then passes on everything that
 * arrived, unless the rules withhold the answer.
 */
export class Beginning {
  readonly #deps: BeginningDeps;
  /** Pieces that are held; undefined once the answer has begun. */
  #held: { readonly bytes: Buffer; readonly isLast: boolean }[] | undefined;
  #heldBytes = 0;
  #timer: Timer | undefined;
  /** Reads events until the rules have decided; undefined afterwards. */
  #reader: SseReader | undefined;
  /** Data of the last event that did not decide. */
  #last: unknown;
  #isWithheld = false;

  constructor(deps: BeginningDeps) {
    this.#deps = deps;
    this.#reader = new SseReader((data) => this.#judge(parseJson(data), false));
    const leftMs = deps.rules.heldMs - deps.ranMs();
    if (leftMs <= 0) {
      deps.begin();
      return;
    }
    this.#held = [];
    this.#timer = deps.clock.after(Math.ceil(leftMs), () => {
      try {
        this.release();
      } catch (error) {
        deps.fault(error);
      }
    });
  }

  chunk(bytes: Buffer, isLast: boolean): void {
    const held = this.#held;
    if (held === undefined) {
      this.#reader?.feed(bytes);
      return this.#deps.pass(bytes, isLast);
    }
    held.push({ bytes, isLast });
    this.#heldBytes += bytes.length;
    this.#reader?.feed(bytes);
    if (this.#isWithheld || (this.#reader !== undefined && this.#heldBytes <= heldBytesMax)) return;
    this.#reader = undefined;
    this.release();
  }

  /** Ends an answer that is complete. Returns true if the client gets none of it. */
  end(): boolean {
    this.#reader?.finish();
    const held = this.#held;
    // An answer without an event may be one JSON text.
    if (held !== undefined && this.#reader !== undefined) {
      const text = withoutByteOrderMark(Buffer.concat(held.map(({ bytes }) => bytes))).toString("utf8");
      this.#judge(this.#last ?? parseJson(text), true);
    }
    this.#reader = undefined;
    this.release();
    return this.#isWithheld;
  }

  /** Passes on what is held. Later bytes are not held. */
  release(): void {
    this.stop();
    const held = this.#held;
    this.#held = undefined;
    if (held === undefined || this.#isWithheld) return;
    this.#deps.begin();
    for (const { bytes, isLast } of held) this.#deps.pass(bytes, isLast);
  }

  /** Stops the timer. */
  stop(): void {
    this.#timer?.cancel();
  }

  #judge(first: unknown, isWhole: boolean): void {
    if (this.#reader === undefined || typeof first !== "object" || first === null) return;
    this.#last = first;
    const verdict = this.#deps.rules.judge(first, { isHeld: this.#held !== undefined, isWhole });
    if (verdict === "open") return;
    this.#reader = undefined;
    if (verdict === "pass") return;
    this.#isWithheld = true;
    this.#deps.withhold(verdict);
  }
}
