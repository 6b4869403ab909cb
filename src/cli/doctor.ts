import { doctorJson, isHealthy, type Check } from "../reporting/doctor.ts";
import { command, json } from "./command.ts";
import { bold, printLine, visible, type Io } from "./io.ts";

export const commands = [
  command("doctor", {
    options: { json },
    settings: "all",
    // Each part of the check loads its own settings, so that one wrong setting does not stop the others.
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
      if (io.isTTY) printLine(io, summary(checks));
    },
    code: (checks) => (isHealthy(checks) ? 0 : 1),
  }),
];

/**
 * Prints a check, aligned on a terminal and tab-separated elsewhere: "ok       gateway          https://… answers in 80 ms".
 */
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
  if (count("failed") > 0) return `${count("failed")} to fix before farebox serve can do its work`;
  return count("warning") > 0
    ? `ready, with ${count("warning")} ${count("warning") === 1 ? "warning" : "warnings"}`
    : "ready";
}
