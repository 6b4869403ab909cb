import type { Command } from "commander";

/** Puts an example under a command's help. */
export function example(command: Command, ...lines: readonly string[]): void {
  const title = lines.length === 1 ? "Example:" : "Examples:";
  command.addHelpText("after", `\n${title}\n${lines.map((line) => `  $ ${line}`).join("\n")}`);
}
