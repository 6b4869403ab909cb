import { Option, type Command } from "commander";
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
  const { sandboxScenarios, sandboxBillingErrors } = context.adapters;
  const errors = sandboxBillingErrors.map(({ usage }) => usage);
  command.addOption(
    new Option("--misbill <errors...>", "bill every call wrongly in these ways").choices(errors).default([], "rightly"),
  );
  command.addHelpText(
    "after",
    () =>
      `\nBeside chat completions it serves /v1/responses, completions, embeddings, images/generations|edits|variations and` +
      `\naudio/speech|transcriptions|translations, each billed in its own books, and answers 401 without its key.\n` +
      `\nScenarios, after the model's name (gpt-4o+cut:5+slow:20), or in the last message, input or prompt (#sandbox cut:5):\n${listed(sandboxScenarios)}` +
      `\n\nBilling errors, for farebox reconcile to find:\n${listed(sandboxBillingErrors)}`,
  );
  example(command, "farebox sandbox --port 4100");
  command.action(
    context.run((options: { host: string; port: number; misbill: string[] }) =>
      context.adapters.startSandbox(options, context.io),
    ),
  );
}

function listed(things: readonly { readonly usage: string; readonly description: string }[]): string {
  const width = Math.max(...things.map(({ usage }) => usage.length));
  return things.map(({ usage, description }) => `  ${usage.padEnd(width)}  ${description}`).join("\n");
}
