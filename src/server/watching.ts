/** Output that continues until a person or a signal ends it. */
export interface Watching extends AsyncDisposable {
  /** Of the terminal, now. */
  size(): { readonly columns: number; readonly rows: number };
  /** Replaces the lines on the screen. */
  draw(lines: readonly string[]): void;
  /** Waits so many milliseconds, less if the terminal changes its size; false once it is to end. */
  wait(ms: number): Promise<boolean>;
}

const enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/** A terminal that supports these draws a frame only when it is complete. */
const [beginFrame, endFrame] = ["\x1b[?2026h", "\x1b[?2026l"];
/** q, and the characters of Ctrl-C and Ctrl-D in raw mode. */
const quitKeys = ["q", "Q", "\x03", "\x04"];

/**
 * Starts output that continues until a signal ends it, or on a screen q, Ctrl-C or Ctrl-D. The screen is the terminal's
 * alternate one; the first is restored when the process ends.
 */
export function startWatching({ screen }: { readonly screen: boolean }): Watching {
  const { stdin, stdout } = process;
  const stopping = new AbortController();
  const stop = () => stopping.abort();
  let wake = () => {};
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, stop);
  const takesKeys = screen && stdin.isTTY === true;
  const onKeys = (keys: Buffer) => {
    if (quitKeys.some((key) => keys.includes(key))) stop();
  };
  const onResize = () => wake();
  const restore = () => void stdout.write(leaveScreen);
  if (screen) {
    process.on("exit", restore);
    stdout.write(enterScreen);
    stdout.on("resize", onResize);
  }
  if (takesKeys) {
    stdin.setRawMode(true);
    stdin.on("data", onKeys);
    stdin.resume();
  }
  return {
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    draw(lines) {
      stdout.write(`${beginFrame}\x1b[H${lines.map((line) => `\x1b[2K${line}`).join("\r\n")}\x1b[J${endFrame}`);
    },
    async wait(ms) {
      if (!stopping.signal.aborted) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
          stopping.signal.addEventListener("abort", wake, { once: true });
        });
        stopping.signal.removeEventListener("abort", wake);
      }
      return !stopping.signal.aborted;
    },
    async [Symbol.asyncDispose]() {
      for (const signal of signals) process.off(signal, stop);
      if (takesKeys) {
        stdin.off("data", onKeys);
        stdin.setRawMode(false);
        stdin.pause();
      }
      if (!screen) return;
      stdout.off("resize", onResize);
      process.off("exit", restore);
      restore();
    },
  };
}
