import { Command, CommanderError } from "commander";
import type { Environment, ReadFile } from "../config/sources.ts";
import type { Adapters } from "./adapters.ts";
import { registerAdmins } from "./admins.ts";
import { registerAudit } from "./audit.ts";
import { registerApply } from "./apply.ts";
import { registerBalance } from "./balance.ts";
import { registerBudgets } from "./budgets.ts";
import { registerCharges } from "./charges.ts";
import { registerConfig } from "./config.ts";
import type { CliContext } from "./context.ts";
import { registerDb } from "./db.ts";
import { registerDemo } from "./demo.ts";
import { registerDoctor } from "./doctor.ts";
import { registerEstimate } from "./estimate.ts";
import { registerExport } from "./export.ts";
import type { Io } from "./io.ts";
import { registerKeys } from "./keys.ts";
import { registerPrices } from "./prices.ts";
import { registerProxies } from "./proxies.ts";
import { registerReconcile } from "./reconcile.ts";
import { registerReport } from "./report.ts";
import { registerRun } from "./run.ts";
import { registerSandbox } from "./sandbox.ts";
import { registerServe } from "./serve.ts";
import { registerTeams } from "./teams.ts";
import { registerVerify } from "./verify.ts";
import { registerWatch } from "./watch.ts";

export interface CliSurroundings {
  readonly io: Io;
  readonly env: Environment;
  readonly readFile: ReadFile;
  readonly adapters: Adapters;
}

/** Runs one command line (without the program's own name) and answers its exit code. Never throws for wrong input. */
export async function runCli(argv: readonly string[], surroundings: CliSurroundings): Promise<number> {
  let exitCode = 0;
  const context: CliContext = {
    ...surroundings,
    run:
      (action) =>
      async (...args) => {
        exitCode = await action(...args);
      },
  };
  try {
    await buildProgram(context).parseAsync([...argv], { from: "user" });
    return exitCode;
  } catch (error) {
    // Commander has printed what is wrong; help and version that were asked for are no fault.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    throw error;
  }
}

/** Builds the commands. What they do is in the context; what they declare is also what docs/cli.md shows. */
export function buildProgram(context: CliContext): Command {
  const { io, adapters } = context;
  const program = new Command("farebox")
    .description("A local OpenAI-compatible proxy that knows what every request costs")
    .version(adapters.version)
    .exitOverride()
    // A command that has commands of its own leaves them the options behind their name.
    .enablePositionalOptions()
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, "farebox: ")),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .showHelpAfterError("(add --help for usage)");
  registerServe(program, context);
  registerDemo(program, context);
  registerRun(program, context);
  registerSandbox(program, context);
  registerKeys(program, context);
  registerTeams(program, context);
  registerAdmins(program, context);
  registerBudgets(program, context);
  registerApply(program, context);
  registerReport(program, context);
  registerCharges(program, context);
  registerWatch(program, context);
  registerExport(program, context);
  registerPrices(program, context);
  registerEstimate(program, context);
  registerBalance(program, context);
  registerReconcile(program, context);
  registerVerify(program, context);
  registerAudit(program, context);
  registerDb(program, context);
  registerProxies(program, context);
  registerConfig(program, context);
  registerDoctor(program, context);
  return program;
}
