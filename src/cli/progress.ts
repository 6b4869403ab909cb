import type { Io } from "./io.ts";

const barWidth = 30;

export interface Progress {
  /** Told a share from 0 to 1. */
  readonly show: (share: number) => void;
  /** Takes the bar away. */
  readonly end: () => void;
}

/** A bar on stderr that moves with the share that is `done` ("copied"), on a terminal only. */
export function progress(io: Io, done: string, isWanted = true): Progress {
  let shown = "";
  const isShown = io.isTTY && isWanted;
  return {
    show: (share) => {
      const filled = Math.floor(share * barWidth);
      const text = `${Math.floor(share * 100)}% ${done} [${"#".repeat(filled)}${"-".repeat(barWidth - filled)}]`;
      if (isShown && text !== shown) io.stderr.write(`\r${text.padEnd(shown.length)}`);
      shown = text;
    },
    end: () => {
      if (isShown && shown !== "") io.stderr.write(`\r${"".padEnd(shown.length)}\r`);
      shown = "";
    },
  };
}
