import { Option, type Command } from "commander";
import type { Flags } from "../config/sources.ts";
import { flagOf, settingNames, settingOf, variableOf, type SettingName } from "../config/table.ts";

/**
 * Gives a command a flag for each of these settings (all, unless named). Secrets have none; help tells how they are given.
 */
export function addSettingFlags(command: Command, names: readonly SettingName[] = settingNames): Command {
  const secrets: SettingName[] = [];
  for (const name of names) {
    const { kind, default: fallback, meaning } = settingOf(name);
    if (kind.secret) {
      secrets.push(name);
      continue;
    }
    const value = isSwitch(name) ? `[${kind.placeholder}]` : `<${kind.placeholder}>`;
    const shown = fallback === null || isSwitch(name) ? "" : ` (default: ${fallback})`;
    command.addOption(
      new Option(`${flagOf(name)} ${value}`, `${meaning}${shown} [${variableOf(name)}]`).helpGroup(settingFlagsHeading),
    );
  }
  if (secrets.length > 0) {
    const lines = secrets.map((name) => `  ${variableOf(name).padEnd(28)}${settingOf(name).meaning}`);
    command.addHelpText(
      "after",
      `\nSecrets have no flag; put _FILE after the name to give a file instead:\n${lines.join("\n")}`,
    );
  }
  return command;
}

/** The heading of these flags in a command's help; by it they are told from its own options. */
export const settingFlagsHeading = "Settings:";

/** A flag that may stand alone, which means 1. */
function isSwitch(name: SettingName): boolean {
  return settingOf(name).kind.placeholder === "1|0";
}

/** The settings among a command's flags, ready for `loadSettings`. */
export function settingFlagsOf(command: Command): Flags {
  const flags: Partial<Record<SettingName, string>> = {};
  for (const name of settingNames) {
    const option = command.options.find(
      (each) => each.long === flagOf(name) && each.helpGroupHeading === settingFlagsHeading,
    );
    const value: unknown = option === undefined ? undefined : command.getOptionValue(option.attributeName());
    if (value === true) flags[name] = "1";
    else if (typeof value === "string") flags[name] = value;
  }
  return flags;
}
