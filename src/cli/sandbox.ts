import type { Command } from "commander";
import { wholeNumberArgument } from "./arguments.ts";
import type { CliContext } from "./context.ts";
import { example } from "./help.ts";

/** `sandbox`: a fake gateway on a real port, to try things out without money. */
export function registerSandbox(program: Command, context: CliContext): void {
  const command = program
    .command("sandbox")
    .description("run a fake gateway that speaks the whole interface and costs nothing")
    .option("--host <host>", "where to listen", "127.0.0.1")
    .option("--port <port>", "where to listen; 0 picks a free one", wholeNumberArgument(0, 65_535), 4100);
  example(command, "farebox sandbox --port 4100");
  command.action(context.run((options: { host: string; port: number }) => context.adapters.startSandbox(options, context.io)));
}
