import { existsSync } from "node:fs";
import { join } from "node:path";
import { Option, type Command } from "commander";
import { priceTables, type PriceImport, type PriceTableName, type PriceTableText } from "../ports/price-import.ts";
import { dayArgument, namesArgument } from "./arguments.ts";
import { settingsFor, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printText, type Io } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";

interface ImportOptions {
  readonly from?: PriceTableName;
  readonly into?: string;
  readonly fromDate?: string;
  readonly provider?: readonly string[];
  readonly models?: readonly string[];
  readonly group: string;
  readonly known?: true;
  readonly print?: true;
  readonly yes?: true;
  readonly json?: true;
}

/** `prices import`: what other tables state otherwise, as dated entries for the folder of price files. */
export function registerImport(prices: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = prices
    .command("import <sources...>")
    .description(
      "show what other projects' tables state otherwise, and add it as dated prices to the folder of price files; nothing that is there is changed",
    )
    .addOption(new Option("--from <table>", "the format of the sources (default: told from each)").choices(priceTables))
    .option("--into <folder>", "the folder of price files (default: --pricing); without either the proposal is printed")
    .option("--from-date <day>", "the day from which changed prices hold (default: today, UTC)", dayArgument)
    .option(
      "--provider <names>",
      "only these of the tables, as they name them (default: the families of the price files)",
      namesArgument,
    )
    .option("--models <patterns>", "only models whose id fits one of these: 'gpt-5*,o3'", namesArgument)
    .option("--known", "only models that the price files name already")
    .option("--group <group>", "the group of models that are new", "official")
    .option("--print", "print the new price file and write nothing")
    .option("--yes", "write without asking")
    .option("--json", "print JSON, with the new file as `yaml`; writes with --yes only");
  addSettingFlags(command, ["pricing"]);
  example(
    command,
    "farebox prices import https://example.com/data.json ./model_prices_and_context_window.json --known",
    "farebox prices import data.json --models 'gpt-5*' --into my-prices --yes",
  );
  command.action(
    context.run(async (sources: readonly string[], options: ImportOptions) => {
      const loaded = settingsFor(context, command, { uses: ["pricing"] });
      if (!loaded.ok) return fail(io, loaded.problems);
      const tables = await readSources(context, sources);
      if (!tables.ok) return fail(io, tables.problem, tables.code);
      const target = options.print ? null : (options.into ?? loaded.settings.pricing.folder);
      const today = new Date(adapters.clock.now()).toISOString().slice(0, 10);
      // A folder that is not there yet has no files to compare with.
      const folder =
        options.into === undefined ? loaded.settings.pricing.folder : existsSync(options.into) ? options.into : null;
      const result = await adapters.importPrices(folder, {
        tables: tables.tables,
        from: options.from ?? null,
        fromDate: options.fromDate ?? today,
        today,
        providers: options.provider ?? null,
        models: options.models ?? null,
        group: options.group,
        withNew: options.known !== true,
      });
      if (!result.ok) return fail(io, result.problems, result.usage ? 2 : 1);
      const { imported } = result;
      if (options.json !== true) show(io, imported);
      const files = target === null ? [] : filesOf(imported, target);
      if (files.length === 0) {
        if (options.json) printJson(io, { ...shown(imported), written: [] });
        else if (target === null) printText(io, imported.yaml);
        return 0;
      }
      const isWanted =
        options.yes === true ||
        (options.json !== true && (await adapters.ask(`Write ${files.map(({ path }) => path).join(" and ")}?`)));
      if (isWanted === null)
        return fail(
          io,
          `nothing was written to ${target ?? ""}: give --yes to write without being asked, or --print to print the file`,
        );
      const written = isWanted ? await adapters.writePriceFiles(files) : null;
      if (written?.ok === false) return fail(io, written.problem, 1);
      if (options.json) printJson(io, { ...shown(imported), written: written?.paths ?? [] });
      else
        note(
          io,
          written === null
            ? "nothing was written"
            : `wrote ${written.paths.join(" and ")}: review it; farebox prices check ${target ?? ""} checks it`,
        );
      return 0;
    }),
  );
}

type Sources =
  | { readonly ok: true; readonly tables: readonly PriceTableText[] }
  | { readonly ok: false; readonly problem: string; readonly code: 1 | 2 };

/** Files and addresses, in the order in which they are given. */
async function readSources({ readFile, adapters }: CliContext, sources: readonly string[]): Promise<Sources> {
  const tables: PriceTableText[] = [];
  for (const source of sources) {
    if (/^[a-z][a-z0-9+.-]*:\/\//i.test(source)) {
      if (!URL.canParse(source))
        return {
          ok: false,
          problem: `${source} is no address that can be read; write one such as https://example.com/data.json`,
          code: 2,
        };
      const fetched = await adapters.download(source);
      if (!fetched.ok) return { ok: false, problem: fetched.problem, code: 1 };
      const { origin, pathname } = new URL(source);
      tables.push({ file: origin + pathname, text: fetched.text });
      continue;
    }
    const read = readFile(source);
    if (!read.ok)
      return {
        ok: false,
        problem: read.code === "ENOENT" ? `there is no file ${source}` : `${source} cannot be read (${read.code})`,
        code: 2,
      };
    tables.push({ file: source, text: read.text });
  }
  return { ok: true, tables };
}

function filesOf({ name, yaml, edited }: PriceImport, folder: string) {
  // What is left for a person alone makes no file.
  const isNew = /^models:/m.test(yaml);
  return [...edited, ...(isNew ? [{ path: join(folder, name), before: null, after: yaml }] : [])];
}

/** As JSON has it: which files change, without their texts. */
function shown({ edited, ...imported }: PriceImport) {
  return { ...imported, edited: edited.map(({ path }) => path) };
}

/** What is proposed and what is not, on stderr. */
function show(io: Io, { proposed, unchanged, differing, left_out }: PriceImport): void {
  for (const { model, kind, by_hand, added_to, entries } of proposed) {
    for (const { from, changes } of entries) {
      const words = changes.map(({ class: name, before, after }) =>
        before === null ? `${name} ${after}` : `${name} ${before} → ${after ?? "none"}`,
      );
      const place =
        by_hand !== null
          ? `, to be added by hand in ${by_hand.file}:${by_hand.line}`
          : added_to === null
            ? ""
            : `, in ${added_to}`;
      note(io, `${kind === "new" ? "new" : "changed"}: ${model} from ${from}: ${words.join(", ")}${place}`);
    }
  }
  for (const { model, class: name, stated } of differing) {
    note(
      io,
      `the tables differ: ${model} ${name}: ${stated.map(({ table, value }) => `${value} in ${table}`).join(", ")}`,
    );
  }
  for (const { model, why } of left_out) note(io, `left out: ${model}: ${why}`);
  note(io, `${proposed.length} models proposed, ${unchanged} unchanged, ${left_out.length} left out`);
}
