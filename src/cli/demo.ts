import { command } from "./command.ts";
import type { RunCommandLine } from "./tools.ts";

/** Returns the command that runs the proxy in front of a sandbox, with its own folder and free ports. */
export const demoTopic = (runCli: RunCommandLine) => ({
  commands: [
    command("demo", {
      options: { once: { help: "exit after the first requests" } },
      examples: ["farebox demo --once"],
      run: async ({ io }, { once }) => (await import("./services/demo.ts")).demo({ once }, io, runCli),
    }),
  ],
});
