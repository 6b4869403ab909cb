import type { Command } from "commander";
import { doctorJson, isHealthy, type Check } from "../reporting/doctor.ts";
import type { CliContext } from "./context.ts";
import { example } from "./help.ts";
import { bold, printJson, printLine, visible, type Io } from "./io.ts";
import { addSettingFlags, settingFlagsOf } from "./setting-flags.ts";

/** `doctor`: everything that `serve` needs, each line ok or what to do. Changes nothing. */
export function registerDoctor(program: Command, context: CliContext): void {
  const { io, env, readFile, adapters } = context;
  const command = program
    .command("doctor")
    .description("look at everything that serve needs and say what to do; changes nothing; exit 1 when something fails")
    .option("--json", "print JSON");
  addSettingFlags(command);
  example(command, "farebox doctor");
  command.action(
    context.run(async (options: { json?: true }) => {
      const checks: Check[] = [];
      await adapters.examine({ flags: settingFlagsOf(command), env, readFile }, (check) => {
        checks.push(check);
        if (!options.json) printCheck(io, check);
      });
      if (options.json) printJson(io, doctorJson(checks));
      else if (io.isTTY) printLine(io, summary(checks));
      return isHealthy(checks) ? 0 : 1;
    }),
  );
}

/** "ok       gateway          https://… answers in 80 ms": aligned on a terminal, separated by tabs elsewhere. */
function printCheck(io: Io, { status, name, message, advice }: Check): void {
  const said = visible(advice === null ? message : `${message}; ${advice}`);
  if (!io.isTTY) {
    io.stdout.write(`${status}\t${name}\t${said}\n`);
    return;
  }
  const word = status.padEnd(9);
  const calm = status === "ok" || status === "skipped";
  io.stdout.write(`${calm ? word : bold(io, word)}${name.padEnd(17)}${said}\n`);
}

function summary(checks: readonly Check[]): string {
  const count = (status: Check["status"]) => checks.filter((check) => check.status === status).length;
  if (count("failed") > 0) return `${count("failed")} to mend before farebox serve can do its work`;
  return count("warning") > 0 ? `ready, with ${count("warning")} to look at` : "ready";
}
