import { Option, type Command } from "commander";
import type { Flags } from "../config/sources.ts";
import { flagOf, settingNames, settingOf, variableOf, type SettingName } from "../config/table.ts";

/**
 * Adds a flag to the command for each of these settings; all settings by default. Secrets get no flag: the help
 * explains how to set them. Returns the command.
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
    const shown = fallback === undefined || isSwitch(name) ? "" : ` (default: ${fallback})`;
    command.addOption(
      new Option(`${flagOf(name)} ${value}`, `${meaning}${shown} [${variableOf(name)}]`).helpGroup(settingFlagsHeading),
    );
  }
  if (secrets.length > 0) {
    const lines = secrets.map((name) => `  ${variableOf(name).padEnd(28)}${settingOf(name).meaning}`);
    command.addHelpText(
      "after",
      `\nSecrets have no flag. Append _FILE to a name to read the secret from a file:\n${lines.join("\n")}`,
    );
  }
  return command;
}

/** Heading of the setting flags in a command's help. Also distinguishes these flags from the command's own options. */
export const settingFlagsHeading = "Settings:";

/** Returns true for a setting whose flag needs no value. A flag without a value means 1. */
function isSwitch(name: SettingName): boolean {
  return settingOf(name).kind.placeholder === "1|0";
}

/** Returns the settings that were given as flags, for `loadSettings`. */
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
