import type { Command } from "commander";
import type { CliContext } from "./context.ts";
import { example } from "./help.ts";

/** `demo`: the proxy before a sandbox, with its own folder and free ports; all settings are ignored. */
export function registerDemo(program: Command, context: CliContext): void {
  const command = program
    .command("demo")
    .description("show the proxy at work before a fake gateway; needs no settings and costs nothing")
    .option("--once", "end after the first round");
  example(command, "farebox demo --once");
  command.action(
    context.run((options: { once?: true }) => context.adapters.demo({ once: options.once === true }, context.io)),
  );
}
