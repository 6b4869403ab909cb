import { loadSettings } from "../../src/config/load.ts";
import type { Settings } from "../../src/config/settings.ts";

/** Returns the settings that these variables give, without flags and files. */
export function settingsFrom(env: Readonly<Record<string, string>>): Settings {
  const loaded = loadSettings({
    env,
    flags: {},
    readFile: () => ({ ok: false, code: "ENOENT" }),
    uses: "all",
  });
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  return loaded.settings;
}
