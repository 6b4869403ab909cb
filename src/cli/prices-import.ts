import { existsSync } from "node:fs";
import { Option, type Command } from "commander";
import { priceTables, type PriceImport, type PriceTableName } from "../ports/price-import.ts";
import { dayArgument, namesArgument } from "./arguments.ts";
import { settingsFor, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, type Io } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";

interface ImportOptions {
  readonly from: PriceTableName;
  readonly into?: string;
  readonly fromDate?: string;
  readonly provider?: readonly string[];
  readonly models?: readonly string[];
  readonly group: string;
  readonly known?: true;
  readonly json?: true;
}

/** `prices import`: what another table states otherwise, as a price file to review. */
export function registerImport(prices: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = prices
    .command("import <file>")
    .description("propose new dated prices from another project's table; nothing that is there is changed")
    .addOption(new Option("--from <table>", "whose format the file has").choices(priceTables).makeOptionMandatory())
    .option("--into <folder>", "write a new file there; without it the proposal is printed. Compares with the files of this folder in place of --pricing")
    .option("--from-date <day>", "the day from which changed prices hold (default: today, UTC)", dayArgument)
    .option("--provider <names>", "only these of the table, as it names them (default: the families of the price files)", namesArgument)
    .option("--models <patterns>", "only models whose id fits one of these: 'gpt-5*,o3'", namesArgument)
    .option("--known", "only models that the price files name already")
    .option("--group <group>", "the group of models that are new", "official")
    .option("--json", "print JSON, with the file as `yaml`");
  addSettingFlags(command, ["pricing"]);
  example(command, "farebox prices import --from genai-prices data.json > proposal.yaml", "farebox prices import --from litellm model_prices_and_context_window.json --models 'gpt-5*' --into my-prices");
  command.action(
    context.run(async (file: string, options: ImportOptions) => {
      const loaded = settingsFor(context, command, { uses: ["pricing"] });
      if (!loaded.ok) return fail(io, loaded.problems);
      const read = context.readFile(file);
      if (!read.ok) return fail(io, read.code === "ENOENT" ? `there is no file ${file}` : `${file} cannot be read (${read.code})`);
      const { into } = options;
      const today = new Date(adapters.clock.now()).toISOString().slice(0, 10);
      // A folder that is not there yet has no files to compare with.
      const folder = into === undefined ? loaded.settings.pricing.folder : existsSync(into) ? into : null;
      const result = await adapters.importPrices(folder, {
        from: options.from,
        file,
        text: read.text,
        fromDate: options.fromDate ?? today,
        today,
        providers: options.provider ?? null,
        models: options.models ?? null,
        group: options.group,
        withNew: options.known !== true,
      });
      if (!result.ok) return fail(io, result.problems, result.usage ? 2 : 1);
      const { imported } = result;
      const written = into === undefined || imported.yaml === "" ? null : await adapters.writePriceFile(into, imported.name, imported.yaml);
      if (written?.ok === false) return fail(io, written.problem, 1);
      if (options.json) printJson(io, { ...imported, written: written?.path ?? null });
      else {
        if (written === null) io.stdout.write(imported.yaml);
        tell(io, imported);
        if (written !== null) note(io, `wrote ${written.path}: review it; farebox prices check ${into} looks at it`);
      }
      return 0;
    }),
  );
}

/** What is proposed and what is not, beside the file. */
function tell(io: Io, { proposed, unchanged, left_out }: PriceImport): void {
  for (const { model, kind, by_hand, entries } of proposed) {
    for (const { from, changes } of entries) {
      const words = changes.map(({ class: name, before, after }) => (before === null ? `${name} ${after}` : `${name} ${before} → ${after ?? "none"}`));
      const place = by_hand === null ? "" : `, to be added by hand in ${by_hand.file}:${by_hand.line}`;
      note(io, `${kind === "new" ? "new" : "changed"}: ${model} from ${from}: ${words.join(", ")}${place}`);
    }
  }
  for (const { model, why } of left_out) note(io, `left out: ${model}: ${why}`);
  note(io, `${proposed.length} models proposed, ${unchanged} unchanged, ${left_out.length} left out`);
}
