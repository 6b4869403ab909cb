import { createInterface } from "node:readline/promises";

/**
 * Asks a question on the terminal. Returns true for y and yes, and false for anything else, Ctrl-C and Ctrl-D. Returns null if
 * stdin or stderr is not a terminal.
 */
export async function ask(question: string): Promise<boolean | null> {
  const { stdin, stderr } = process;
  if (stdin.isTTY !== true || stderr.isTTY !== true) return null;
  const lines = createInterface({ input: stdin, output: stderr });
  const closed = Promise.withResolvers<string>();
  lines.once("close", () => closed.resolve(""));
  lines.once("SIGINT", () => lines.close());
  try {
    const answer = await Promise.race([lines.question(`${question} [y/N] `), closed.promise]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    lines.close();
  }
}
