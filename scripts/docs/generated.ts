import { adminRoutesTable } from "./admin-routes.ts";
import { chargeFieldsTable } from "./charge-fields.ts";
import { commandSections } from "./commands.ts";
import { errorCodesTable } from "./error-codes.ts";
import { settingsRows } from "./settings.ts";

/** The parts of each page in docs/ that are written by code, by the name of their markers. */
const parts: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  "settings.md": { settings: settingsRows },
  "cli.md": { commands: commandSections },
  "errors.md": { codes: errorCodesTable },
  "charges.md": { fields: chargeFieldsTable },
  "admin-api.md": { routes: adminRoutesTable },
};

export const generatedPages = Object.keys(parts);

/** Returns a page with its generated parts as they should be: all that is between `<!-- generated: NAME -->` and `<!-- end -->`. */
export function withGenerated(page: string, text: string): string {
  return Object.entries(parts[page] ?? {}).reduce((whole, [name, write]) => {
    const marked = new RegExp(`(<!-- generated: ${name} -->\n)[^]*?(<!-- end -->)`);
    if (!marked.test(whole)) throw new Error(`docs/${page} has no part "${name}"`);
    return whole.replace(marked, (_all, begin: string, end: string) => `${begin}\n${write()}\n\n${end}`);
  }, text);
}
