import type { Refusal } from "../core/refusals.ts";
import type { OutputListener } from "../wire/stream-output.ts";
import type { Pace } from "./pace.ts";

/** Looks on while a stream passes. */
export interface StreamWatch {
  /** The stream begins: it can be paused, and ended with a reason for its row and a refusal for its client. */
  begin(stream: WatchedStream): void;
  /** Nobody can tell how much is written: the answer is compressed, or no stream after all. One that has not begun goes on anyhow. */
  cannotRead(): void;
  /** Bytes of a stream that can be left unread at first: what they say is within the hold. */
  readonly unreadBytes: number;
  /** Hears of what is written. */
  readonly output: OutputListener;
  /** After every chunk. */
  look(): void;
  /** Nothing more will come. */
  end(): void;
}

export interface WatchedStream {
  readonly pace: Pace;
  /** How long nothing was read so far, for whatever reason. Milliseconds. */
  pausedMs(): number;
  stop(reason: string, refusal: Refusal): void;
}
