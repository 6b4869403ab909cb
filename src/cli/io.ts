import { styleText } from "node:util";
import type { Environment } from "../config/sources.ts";

/** Exit code of a command: done, the thing asked about is wrong, wrong usage or settings. */
export type ExitCode = 0 | 1 | 2;

export interface Output {
  /** False where the reader has fallen behind: `drain` is told when it has caught up. */
  write(text: string): unknown;
  once?(event: "drain", listener: () => void): unknown;
}

/** Output of commands, handed in so that a test can read it. */
export interface Io {
  readonly stdout: Output;
  readonly stderr: Output;
  /** True if stdout is a terminal. */
  readonly isTTY: boolean;
  /** True if stderr is one; as stdout unless given. */
  readonly isErrorTTY?: boolean;
  /** Width of the terminal; 80 unless given. */
  readonly columns?: number;
  readonly env: Environment;
}

export function printJson(io: Io, value: unknown): void {
  io.stdout.write(`${jsonText(value, io.isTTY ? 2 : undefined)}\n`);
}

/** Writes texts of whole lines as they come, no faster than they are read. A reader that leaves ends the program. */
export async function writeTexts(io: Io, texts: AsyncIterable<string>): Promise<null> {
  for await (const text of texts) {
    if (printText(io, text) === false) await drained(io.stdout);
  }
  return null;
}

/** Writes whole lines, such as CSV: the same bytes to a file or a pipe, and without control characters to a terminal. */
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

export function printLine(io: Io, line: string): void {
  io.stdout.write(`${visible(line)}\n`);
}

/** A remark beside the output: stderr, so that it never ends up in a pipe. */
export function note(io: Io, line: string): void {
  io.stderr.write(`${visible(line)}\n`);
}

/** Reason why a command did nothing: one line for each problem. A use case's `Failure` is one. */
export interface Refusal {
  readonly ok: false;
  readonly message: string | readonly string[];
  /** That of wrong usage unless given. */
  readonly code?: ExitCode;
}

export function refusal(message: string | readonly string[], code?: ExitCode): Refusal {
  return { ok: false, message, ...(code !== undefined && { code }) };
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

/** Characters that could steer a terminal or change the order in which it shows others; a line end counts as one. */
// oxlint-disable-next-line no-control-regex -- control characters are what it matches
const controls = /\r\n|[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Replaces control characters: names come in requests and could steer a terminal. */
export function visible(text: string): string {
  return text.replace(controls, (found) => "\ufffd".repeat(found.length));
}

/** JSON in which control characters are escaped, those too that JSON allows as they are. */
export function jsonText(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, null, indent);
  return text.replace(controls, (found) =>
    found === "\n" ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
