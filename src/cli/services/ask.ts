import { createInterface } from "node:readline/promises";
import { Writable } from "node:stream";

/**
 * Asks a question on the terminal. Returns true for y and yes, and false for anything else, Ctrl-C and Ctrl-D. Returns
 * null if stdin or stderr is not a terminal.
 */
export async function ask(question: string): Promise<boolean | null> {
  const answer = await askText(`${question} [y/N] `);
  return typeof answer === "string" ? /^y(es)?$/i.test(answer) : answer;
}

/**
 * Asks for a line of text on the terminal. With `hidden`, the terminal does not show the typed text. Returns false for
 * Ctrl-C and Ctrl-D, and null if stdin or stderr is not a terminal.
 */
export async function askText(question: string, { hidden = false } = {}): Promise<string | false | null> {
  const { stdin, stderr } = process;
  if (stdin.isTTY !== true || stderr.isTTY !== true) return null;
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: stdin, output: hidden ? nowhere : stderr, terminal: true });
  if (hidden) stderr.write(question);
  const closed = Promise.withResolvers<false>();
  lines.once("close", () => closed.resolve(false));
  lines.once("SIGINT", () => lines.close());
  try {
    const answer = await Promise.race([lines.question(question), closed.promise]);
    return answer === false ? false : answer.trim();
  } finally {
    lines.close();
    if (hidden) stderr.write("\n");
  }
}
