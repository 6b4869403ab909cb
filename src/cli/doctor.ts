import { doctorJson, isHealthy } from "../reporting/doctor.ts";
import type { Check } from "../reporting/shapes/commands.ts";
import { counted } from "./amounts.ts";
import { command, json } from "./command.ts";
import { bold, printLine, withoutControls, type Io } from "./io.ts";

export const commands = [
  command("doctor", {
    options: { json },
    settings: "all",
    // Each check loads its own settings, so that one wrong setting does not stop the other checks.
    settingsUnread: true,
    examples: ["farebox doctor"],
    run: async ({ io, flags, env, readFile, clock }, options) => {
      const checks: Check[] = [];
      const { examine } = await import("./services/doctor.ts");
      await examine({ flags, env, readFile }, clock, (check) => {
        checks.push(check);
        if (!options.json) printCheck(io, check);
      });
      return checks;
    },
    json: doctorJson,
    print: (io, checks) => {
      if (io.isTTY) printLine(io, doctorSummary(checks));
    },
    code: (checks) => (isHealthy(checks) ? 0 : 1),
  }),
];

/**
 * Prints a check, aligned on a terminal and tab-separated elsewhere: "ok       gateway          https://… answers in 80 ms".
 */
export function printCheck(io: Io, { status, name, message, advice }: Check): void {
  const text = withoutControls(advice === null ? message : `${message}; ${advice}`);
  if (!io.isTTY) {
    io.stdout.write(`${status}\t${name}\t${text}\n`);
    return;
  }
  const word = status.padEnd(9);
  const calm = status === "ok" || status === "skipped";
  io.stdout.write(`${calm ? word : bold(io, word)}${name.padEnd(17)}${text}\n`);
}

/** Returns the result of all checks in one line. */
export function doctorSummary(checks: readonly Check[]): string {
  const count = (status: Check["status"]) => checks.filter((check) => check.status === status).length;
  if (count("failed") > 0) return `${counted(count("failed"), "failure")} to fix before farebox serve can work`;
  return count("warning") > 0 ? `ready, with ${counted(count("warning"), "warning")}` : "ready";
}
