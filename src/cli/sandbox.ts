import { wholeNumberArgument } from "./arguments.ts";
import { command } from "./command.ts";
import { note, printLine, commandFailure } from "./io.ts";
import { listenProblem } from "../server/listen.ts";
import { firstSignal } from "../server/signals.ts";
import { billingErrors, type BillingError } from "../sandbox/billing.ts";
import { scenarioList } from "../sandbox/scenarios.ts";
import { startSandbox } from "../sandbox/server.ts";

/** Runs the fake gateway. The help lists its scenarios. */
export const commands = [
  command("sandbox", {
    options: {
      host: { value: "<host>", help: "address to listen on", default: "127.0.0.1" },
      port: {
        value: "<port>",
        help: "port to listen on; 0 picks a free one",
        parse: wholeNumberArgument(0, 65_535),
        default: 4100,
      },
      misbill: {
        value: "<errors...>",
        help: "billing errors to make in every call",
        choices: Object.keys(billingErrors) as BillingError[],
        default: [],
        defaultShown: "none",
      },
    },
    help: () =>
      `\nServes chat completions and these endpoints under /v1: responses, messages, completions, embeddings,` +
      `\nimages/generations|edits|variations, audio/speech|transcriptions|translations.` +
      `\nBills each call. Answers 401 to calls without its API key.\n` +
      `\nScenarios: append them to the model's name (gpt-4o+cut:5+slow:20) or put them in the last message, input or prompt (#sandbox cut:5):\n${listed(scenarioList)}` +
      `\n\nBilling errors, for farebox reconcile to find:\n${listed(Object.entries(billingErrors).map(([usage, description]) => ({ usage, description })))}`,
    examples: ["farebox sandbox --port 4100"],
    run: async ({ io }, { misbill, ...options }) => {
      // Waits for signals before it says that it is ready.
      const stopping = firstSignal();
      const problem = await listenProblem(options);
      if (problem !== null) return commandFailure(problem);
      await using sandbox = await startSandbox({ ...options, billingErrors: misbill });
      printLine(io, `sandbox gateway listening on ${sandbox.url}`);
      note(io, `its API key is ${sandbox.apiKey}; append scenarios to the model's name, as in gpt-4o+cut:5`);
      await stopping;
      return 0;
    },
  }),
];

function listed(entries: readonly { readonly usage: string; readonly description: string }[]): string {
  const width = Math.max(...entries.map(({ usage }) => usage.length));
  return entries.map(({ usage, description }) => `  ${usage.padEnd(width)}  ${description}`).join("\n");
}
