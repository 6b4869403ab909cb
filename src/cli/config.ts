import type { Command } from "commander";
import { variableOf } from "../config/table.ts";
import { settingsFor, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, printJson } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable } from "./table.ts";

/** `config show`: the settings in force and where each came from. Secrets stay hidden. */
export function registerConfig(program: Command, context: CliContext): void {
  const { io } = context;
  const config = program.command("config").description("look at the settings");
  const command = config
    .command("show")
    .description("print the settings in force and where each came from; secrets are hidden")
    .option("--json", "print JSON");
  addSettingFlags(command);
  example(command, "farebox config show");
  command.action(
    context.run(async (options: { json?: true }) => {
      const loaded = settingsFor(context, command, { uses: "all" });
      if (!loaded.ok) return fail(io, loaded.problems);
      const rows = loaded.inForce.map(({ name, value, from }) => ({ name: variableOf(name), value, from }));
      if (options.json) printJson(io, { file: loaded.file, settings: rows });
      else {
        printTable(
          io,
          [{ title: "setting" }, { title: "value" }, { title: "from" }],
          rows.map(({ name, value, from }) => [name, value, from === "file" ? (loaded.file ?? from) : from]),
        );
      }
      return 0;
    }),
  );
}
