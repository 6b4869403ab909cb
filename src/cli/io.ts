import { styleText } from "node:util";
import type { Environment } from "../config/sources.ts";

/** What a command ends with: done, the thing asked about is wrong, wrong usage or settings. */
export type ExitCode = 0 | 1 | 2;

export interface Output {
  /** False where the reader has fallen behind: `drain` is told when it has caught up. */
  write(text: string): unknown;
  once?(event: "drain", listener: () => void): unknown;
}

/** Where commands write, handed in so that a test can read it. */
export interface Io {
  readonly stdout: Output;
  readonly stderr: Output;
  /** Whether stdout is a terminal. */
  readonly isTTY: boolean;
  /** Whether stderr is one; as stdout where nothing is said. */
  readonly isErrorTTY?: boolean;
  /** How wide the terminal is; 80 where nothing is said. */
  readonly columns?: number;
  readonly env: Environment;
}

export function printJson(io: Io, value: unknown): void {
  io.stdout.write(`${JSON.stringify(value, null, io.isTTY ? 2 : undefined)}\n`);
}

/** Writes texts as they come, no faster than they are read. A reader that leaves ends the program. */
export async function writeTexts(output: Output, texts: AsyncIterable<string>): Promise<null> {
  for await (const text of texts) {
    if (output.write(text) === false) await drained(output);
  }
  return null;
}

function drained(output: Output): Promise<void> {
  return new Promise((resolve) => {
    if (output.once === undefined) resolve();
    else output.once("drain", resolve);
  });
}

export function printLine(io: Io, line: string): void {
  io.stdout.write(`${visible(line)}\n`);
}

/** A remark beside the output: stderr, so that it never ends up in a pipe. */
export function note(io: Io, line: string): void {
  io.stderr.write(`${visible(line)}\n`);
}

/** One line a problem on stderr; answers the exit code of wrong usage unless another is given. */
export function fail(io: Io, problems: string | readonly string[], code: ExitCode = 2): ExitCode {
  for (const problem of typeof problems === "string" ? [problems] : problems) note(io, `farebox: ${problem}`);
  return code;
}

export type Style = "bold" | "dim" | "red" | "yellow" | "green" | "cyan";

/** Text in a style, on a terminal alone; `NO_COLOR` takes it away, and `FORCE_COLOR` gives it everywhere, as in Node itself. */
export function styled(io: Io, style: Style, text: string): string {
  return isColoured(io) ? styleText(style, text, { validateStream: false }) : text;
}

export function bold(io: Io, text: string): string {
  return styled(io, "bold", text);
}

function isColoured({ env, isTTY }: Io): boolean {
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return forced !== "0" && forced !== "false";
  return isTTY && !env["NO_COLOR"] && env["TERM"] !== "dumb";
}

/** Names that came in requests are shown without control characters: they could steer a terminal. */
export function visible(text: string): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what it looks for
  return text.replace(/[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}
