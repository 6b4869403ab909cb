import type { Charge } from "../core/charge.ts";
import type { Io } from "./io.ts";

const barWidth = 30;

/** Progress bar. Disposing of it removes the bar from the terminal. */
export interface Progress extends Disposable {
  /** Shows a share from 0 to 1. */
  readonly show: (share: number) => void;
  /** Removes the bar until it is shown again. */
  readonly hide: () => void;
}

/**
 * Returns a progress bar on stderr. It shows nothing if stderr is not a terminal, or if `isWanted` is false. `word` is
 * the word after the percentage, such as "copied".
 */
export function progress(io: Io, word: string, isWanted = true): Progress {
  let shown = "";
  const isShown = (io.isErrorTTY ?? io.isTTY) && isWanted;
  const hide = () => {
    if (isShown && shown !== "") io.stderr.write(`\r${"".padEnd(shown.length)}\r`);
    shown = "";
  };
  return {
    show: (share) => {
      const filled = Math.floor(share * barWidth);
      const text = `${Math.floor(share * 100)}% ${word} [${"#".repeat(filled)}${"-".repeat(barWidth - filled)}]`;
      if (isShown && text !== shown) io.stderr.write(`\r${text.padEnd(shown.length)}`);
      shown = text;
    },
    hide,
    [Symbol.dispose]: hide,
  };
}

/**
 * Yields the parts unchanged. A bar shows how far the times of their charges have come from the first charge to `until`.
 * The charges must be in order, oldest first. Shows no bar if the charges themselves are printed on a terminal.
 */
export async function* withProgress(
  io: Io,
  word: string,
  parts: AsyncIterable<readonly Charge[]>,
  { until, toStdout }: { readonly until: number; readonly toStdout: boolean },
): AsyncGenerator<readonly Charge[]> {
  using bar = progress(io, word, !(toStdout && io.isTTY));
  let since: number | undefined;
  for await (const part of parts) {
    const last = part.at(-1);
    since ??= part[0]?.at;
    if (last !== undefined && since !== undefined && until > since)
      bar.show(Math.min(1, (last.at - since) / (until - since)));
    yield part;
  }
}
