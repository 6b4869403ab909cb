import { Option, type Command } from "commander";
import type { Flags } from "../config/sources.ts";
import { flagOf, settingNames, settingOf, variableOf, type SettingName } from "../config/table.ts";

/** Gives a command a flag for each of these settings (all, unless named). Secrets have none. */
export function addSettingFlags(command: Command, names: readonly SettingName[] = settingNames): Command {
  for (const name of names) {
    const { kind, default: fallback, meaning } = settingOf(name);
    if (kind.secret) continue;
    const isSwitch = kind.placeholder === "1|0";
    const value = isSwitch ? `[${kind.placeholder}]` : `<${kind.placeholder}>`;
    const shown = fallback === null || isSwitch ? "" : ` (default: ${fallback})`;
    const option = new Option(`${flagOf(name)} ${value}`, `${meaning}${shown} [${variableOf(name)}]`).helpGroup("Settings:");
    command.addOption(isSwitch ? option.preset("1") : option);
  }
  return command;
}

/** The settings among a command's flags, ready for `loadSettings`. */
export function settingFlagsOf(command: Command): Flags {
  const given: Record<string, unknown> = command.opts();
  const flags: Partial<Record<SettingName, string>> = {};
  for (const name of settingNames) {
    const value = given[name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())];
    const isFlagOfSetting = command.options.some((option) => option.long === flagOf(name) && option.helpGroupHeading === "Settings:");
    if (isFlagOfSetting && typeof value === "string") flags[name] = value;
  }
  return flags;
}
