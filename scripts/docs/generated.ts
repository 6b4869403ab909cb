import { adminRoutesTable } from "./admin-routes.ts";
import { chargeFieldsTable } from "./charge-fields.ts";
import { commandSections } from "./commands.ts";
import { comparison } from "./comparison.ts";
import { errorCodesTable } from "./error-codes.ts";
import { priceFieldTables } from "./price-fields.ts";
import { settingsRows } from "./settings.ts";

/** Functions that write the generated parts of each page in docs/, by the names of the parts' markers. */
const parts: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  "settings.md": { settings: settingsRows },
  "cli.md": { commands: commandSections },
  "errors.md": { codes: errorCodesTable },
  "charges.md": { fields: chargeFieldsTable },
  "admin-api.md": { routes: adminRoutesTable },
  "prices.md": { fields: priceFieldTables },
  "comparison.md": { figures: () => comparison().figures, setup: () => comparison().setup },
};

export const generatedPages = Object.keys(parts);

/** Returns a page with new generated parts. A part is the text between `<!-- generated: NAME -->` and `<!-- end -->`. */
export function withGenerated(page: string, text: string): string {
  return Object.entries(parts[page] ?? {}).reduce((whole, [name, write]) => {
    const marked = new RegExp(`(<!-- generated: ${name} -->\n)[^]*?(<!-- end -->)`);
    if (!marked.test(whole)) throw new Error(`docs/${page} has no part "${name}"`);
    return whole.replace(marked, (_all, begin: string, end: string) => `${begin}\n${write()}\n\n${end}`);
  }, text);
}
