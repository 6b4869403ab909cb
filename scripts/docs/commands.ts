import type { Command, Option } from "commander";
import type { Surroundings } from "../../src/cli/tools.ts";
import { buildProgram } from "../../src/cli/program.ts";
import { settingFlagsHeading } from "../../src/cli/setting-flags.ts";
import { capitalized, cell, code, table } from "./markdown.ts";

/** Command with its full name and the text after its options. */
interface DeclaredCommand {
  /** Name, including the program's name: "farebox keys create". */
  readonly name: string;
  readonly command: Command;
  /** Help text below the options, including the examples. */
  readonly after: string;
}

let written = "";
const program = await programOf();

async function programOf(): Promise<Command> {
  const io = { stdout: { write: (text: string) => (written += text) } };
  return await buildProgram(
    { io, version: "" } as unknown as Surroundings,
    () => true,
    () => {},
  );
}

/** Returns every command that can be run, in the order of the help. */
export function declaredCommands(): readonly DeclaredCommand[] {
  const below = (command: Command, name: string): DeclaredCommand[] => {
    written = "";
    command.outputHelp();
    const after = written.slice(written.indexOf(command.helpInformation()) + command.helpInformation().length);
    const runs = command.commands.length === 0 || command.options.length > 0;
    return [
      ...(runs ? [{ name, command, after }] : []),
      ...command.commands.flatMap((each) => below(each, `${name} ${each.name()}`)),
    ];
  };
  return program.commands.flatMap((each) => below(each, `farebox ${each.name()}`));
}

/** Returns a section for each command, with its summary, usage, options and examples. */
export function commandSections(): string {
  return declaredCommands().map(section).join("\n\n");
}

function section({ name, command, after }: DeclaredCommand): string {
  const ofSettings = ({ helpGroupHeading }: Option) => helpGroupHeading === settingFlagsHeading;
  const options = command.options.filter((option) => !ofSettings(option));
  const settings = command.options.filter(ofSettings).map(({ long }) => code(long ?? ""));
  const words = command.registeredArguments.map((argument) => {
    const word = argument.name() + (argument.variadic ? "..." : "");
    return argument.required ? `<${word}>` : `[${word}]`;
  });
  const examples = [...after.matchAll(/^ {2}\$ (.*)$/gm)].map(([, line = ""]) => line);
  return [
    `## ${name}`,
    `${capitalized(command.description())}.`,
    ["```", [name, ...words].join(" "), "```"].join("\n"),
    ...(options.length > 0
      ? [
          table(
            ["option", "meaning"],
            options.map((option) => [code(option.flags), meaningOf(option)]),
          ),
        ]
      : []),
    ...(settings.length > 0
      ? [`Flags of [settings](settings.md): ${settings.length > 9 ? "all" : settings.join(", ")}.`]
      : []),
    ...(examples.length > 0 ? [["```sh", ...examples, "```"].join("\n")] : []),
  ].join("\n\n");
}

function meaningOf({ description, defaultValue, defaultValueDescription, argChoices }: Option): string {
  const choices = argChoices === undefined ? "" : ` (${argChoices.join(", ")})`;
  const isPlain = typeof defaultValue === "string" || typeof defaultValue === "number";
  const shown = defaultValueDescription ?? (isPlain ? String(defaultValue) : undefined);
  return cell(description + choices) + (shown === undefined ? "" : ` (default: ${shown})`);
}
