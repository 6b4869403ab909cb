import { variableOf } from "../config/table.ts";
import { command, json } from "./command.ts";
import { printRows } from "./table.ts";

export const commands = [
  command("config show", {
    summary: "print the settings in use and the source of each; secrets are hidden",
    options: { json },
    settings: "all",
    examples: ["farebox config show"],
    run: async ({ loaded }) => ({
      file: loaded.file,
      settings: loaded.inForce.map(({ name, value, from }) => ({ name: variableOf(name), value, from })),
    }),
    print: (io, { file, settings }) =>
      printRows(io, settings, {
        setting: ({ name }) => name,
        value: ({ value }) => value,
        from: ({ from }) => (from === "file" ? (file ?? from) : from),
      }),
  }),
];
