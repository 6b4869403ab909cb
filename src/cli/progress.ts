import type { Charge } from "../core/charge.ts";
import type { Io } from "./io.ts";

const barWidth = 30;

export interface Progress {
  /** Shows a share from 0 to 1. */
  readonly show: (share: number) => void;
  /** Removes the bar. */
  readonly end: () => void;
}

/** Shows a progress bar on stderr if that is a terminal. `done` is the word after the percentage, such as "copied". */
export function progress(io: Io, done: string, isWanted = true): Progress {
  let shown = "";
  const isShown = (io.isErrorTTY ?? io.isTTY) && isWanted;
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

/**
 * Yields the parts unchanged and shows a bar of their progress in time. Parts must be in order, oldest first. No bar is shown
 * if the output itself goes to the terminal.
 */
export async function* withProgress(
  io: Io,
  done: string,
  parts: AsyncIterable<readonly Charge[]>,
  { until, toStdout }: { readonly until: number; readonly toStdout: boolean },
): AsyncGenerator<readonly Charge[]> {
  const bar = progress(io, done, !(toStdout && io.isTTY) && (io.isErrorTTY ?? io.isTTY));
  let since: number | undefined;
  try {
    for await (const part of parts) {
      const last = part.at(-1);
      since ??= part[0]?.at;
      if (last !== undefined && since !== undefined && until > since)
        bar.show(Math.min(1, (last.at - since) / (until - since)));
      yield part;
    }
  } finally {
    bar.end();
  }
}
