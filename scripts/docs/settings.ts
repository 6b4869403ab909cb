import { settingNames, settingOf, variableOf, type SettingName } from "../../src/config/table.ts";
import { cell, code, table } from "./markdown.ts";

/** Settings that `serve` requires. */
const needed: ReadonlySet<SettingName> = new Set(["gateway_url", "gateway_api_key"]);

/** Returns a table of all settings, in the order of the table in code. */
export function settingsRows(): string {
  return table(
    ["variable", "default", "meaning", "values"],
    settingNames.map((name) => {
      const { default: fallback, meaning, page } = settingOf(name);
      const more = page === undefined ? "" : ` ([more](${page}))`;
      const none = needed.has(name) ? "none; `serve` needs it" : "none";
      return [
        code(variableOf(name)),
        fallback === undefined ? none : code(fallback),
        cell(meaning) + more,
        values(name),
      ];
    }),
  );
}

/** Returns the values that a setting takes, in the words of its error. */
function values(name: SettingName): string {
  const { kind } = settingOf(name);
  const reading = kind.read("\0");
  if (reading.ok) throw new Error(`${name} accepts any text, so its error cannot describe its values`);
  const allowed = cell(reading.problem.replace(/^must be /, "").replace(/, written as .*, such as /, ", such as "));
  return kind.secret ? `${allowed}; a secret` : allowed;
}
