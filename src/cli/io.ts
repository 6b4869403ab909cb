import { styleText } from "node:util";
import type { Environment } from "../config/sources.ts";

/** Exit code of a command. 0: success; 1: the command found a problem; 2: wrong usage or settings. */
export type ExitCode = 0 | 1 | 2;

export interface Output {
  /** Writes a text. Returns false if the reader is too slow; a `drain` event follows when the reader has caught up. */
  write(text: string, written?: (error?: Error | null) => void): unknown;
  once?(event: "drain", listener: () => void): unknown;
}

/** Output of a command. Tests pass their own. */
export interface Io {
  readonly stdout: Output;
  readonly stderr: Output;
  /** True if stdout is a terminal. */
  readonly isTTY: boolean;
  /** True if stderr is a terminal. Default: the value for stdout. */
  readonly isErrorTTY?: boolean;
  /** Width of the terminal in characters. Default: 80. */
  readonly columns?: number;
  /** Lets a command continue if stdout is closed or full. Otherwise, such an error ends the process. */
  readonly continueWithoutStdout?: () => void;
  readonly env: Environment;
}

export function printJson(io: Io, value: unknown): void {
  io.stdout.write(`${jsonText(value, io.isTTY ? 2 : undefined)}\n`);
}

/** Writes texts as they arrive, and waits while the reader is slow. Each text consists of whole lines. Returns null. */
export async function writeTexts(io: Io, texts: AsyncIterable<string>): Promise<null> {
  for await (const text of texts) {
    if (printText(io, text) === false) await drained(io.stdout);
  }
  return null;
}

/** Writes whole lines, such as CSV. A file or pipe receives them unchanged; a terminal receives no control characters. */
export function printText(io: Io, text: string): unknown {
  return io.stdout.write(
    io.isTTY ? text.replace(controls, (found) => (/^(?:\r?\n|\t)$/.test(found) ? found : "\ufffd")) : text,
  );
}

function drained(output: Output): Promise<void> {
  return new Promise((resolve) => {
    if (output.once === undefined) resolve();
    else output.once("drain", resolve);
  });
}

/** Writes a text to stdout. Returns the reason for a failure; null on success. */
export function writeSafely({ stdout }: Io, text: string): Promise<string | null> {
  return new Promise((resolve) => {
    stdout.write(text, (error) => resolve(error ? error.message : null));
  });
}

export function printLine(io: Io, line: string): void {
  io.stdout.write(`${withoutControls(line)}\n`);
}

/** Prints a bold line after an empty one. */
export function printHeading(io: Io, text: string): void {
  io.stdout.write(`\n${bold(io, withoutControls(text))}\n`);
}

/** Writes a note to stderr, so that it does not mix with the command's output on stdout. */
export function note(io: Io, line: string): void {
  io.stderr.write(`${withoutControls(line)}\n`);
}

/** Reason why a command did nothing, one line for each problem. A use case's `Failure` has the same shape. */
export interface CommandFailure {
  readonly ok: false;
  readonly message: string | readonly string[];
  /** Exit code. Default: 2, for wrong usage. */
  readonly code?: ExitCode;
}

export function commandFailure(message: string | readonly string[], code?: ExitCode): CommandFailure {
  return { ok: false, message, ...(code !== undefined && { code }) };
}

/** Prints each problem as one line on stderr and returns the exit code. */
export function fail(io: Io, problems: string | readonly string[], code: ExitCode = 2): ExitCode {
  for (const problem of typeof problems === "string" ? [problems] : problems) note(io, `farebox: ${problem}`);
  return code;
}

export type Style = "bold" | "dim" | "red" | "yellow" | "green" | "cyan";

/** Styles text on a terminal. As in Node, `NO_COLOR` disables styles and `FORCE_COLOR` enables them everywhere. */
export function styled(io: Io, style: Style, text: string): string {
  return isColored(io) ? styleText(style, text, { validateStream: false }) : text;
}

export function bold(io: Io, text: string): string {
  return styled(io, "bold", text);
}

function isColored({ env, isTTY }: Io): boolean {
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return forced !== "0" && forced !== "false";
  return isTTY && !env["NO_COLOR"] && env["TERM"] !== "dumb";
}

/** Matches characters that can control a terminal or reorder its text. CR LF counts as one match. */
// oxlint-disable-next-line no-control-regex -- it must match control characters
const controls = /\r\n|[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Replaces control characters. Names come from requests, and their control characters could control a terminal. */
export function withoutControls(text: string): string {
  return text.replace(controls, (found) => "\ufffd".repeat(found.length));
}

/** Converts a value to JSON and escapes every control character, including those that JSON permits. */
export function jsonText(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent);
  return text.replace(controls, (found) =>
    found === "\n" ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
