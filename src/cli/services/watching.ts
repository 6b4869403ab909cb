import { setTimeout as pause } from "node:timers/promises";

/** Output that continues until a user or a signal ends it. */
export interface Watching extends AsyncDisposable {
  /** Returns the current size of the terminal. */
  size(): { readonly columns: number; readonly rows: number };
  /** Replaces the lines on the screen. */
  draw(lines: readonly string[]): void;
  /** Returns what was typed since the last call. */
  typed(): string;
  /**
   * Waits for `ms` milliseconds, or until the size of the terminal changes or a key is pressed. Returns false if a
   * signal, Ctrl-C or Ctrl-D has ended the output.
   */
  wait(ms: number): Promise<boolean>;
}

const enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/** Codes around a frame. A terminal that supports them shows a frame only when it is complete. */
const [beginFrame, endFrame] = ["\x1b[?2026h", "\x1b[?2026l"];
/** Characters of Ctrl-C and Ctrl-D in raw mode, which end the output. */
const quitKeys = ["\x03", "\x04"];

/**
 * Starts output that continues until a signal ends it. With `screen`, the output uses the terminal's alternate screen,
 * and Ctrl-C and Ctrl-D end it too. The main screen is restored when the output or the process ends.
 */
export function startWatching({ screen }: { readonly screen: boolean }): Watching {
  const { stdin, stdout } = process;
  let hasEnded = false;
  let waking = new AbortController();
  const wake = () => waking.abort();
  const stop = () => {
    hasEnded = true;
    wake();
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, stop);
  const readsKeys = screen && stdin.isTTY === true;
  let typed = "";
  const onKeys = (keys: Buffer) => {
    typed += keys.toString();
    if (quitKeys.some((key) => keys.includes(key))) stop();
    wake();
  };
  const restore = () => void stdout.write(leaveScreen);
  if (screen) {
    process.on("exit", restore);
    stdout.write(enterScreen);
    stdout.on("resize", wake);
  }
  if (readsKeys) {
    stdin.setRawMode(true);
    stdin.on("data", onKeys);
    stdin.resume();
  }
  return {
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    draw(lines) {
      stdout.write(`${beginFrame}\x1b[H${lines.map((line) => `\x1b[2K${line}`).join("\r\n")}\x1b[J${endFrame}`);
    },
    typed() {
      const keys = typed;
      typed = "";
      return keys;
    },
    async wait(ms) {
      if (hasEnded) return false;
      waking = new AbortController();
      // The pause rejects when it is aborted.
      await pause(ms, undefined, { signal: waking.signal }).catch(() => undefined);
      return !hasEnded;
    },
    async [Symbol.asyncDispose]() {
      for (const signal of signals) process.off(signal, stop);
      if (readsKeys) {
        stdin.off("data", onKeys);
        stdin.setRawMode(false);
        stdin.pause();
      }
      if (!screen) return;
      stdout.off("resize", wake);
      process.off("exit", restore);
      restore();
    },
  };
}
