import { existsSync } from "node:fs";
import { join } from "node:path";
import { readOutbound } from "../config/outbound.ts";
import { priceTables, type PriceImport, type PriceTableText } from "../ports/price-import.ts";
import { fetchText } from "./services/price-sources.ts";
import { writeNewFile } from "../catalogue/import/write.ts";
import { dayArgument, namesArgument } from "./arguments.ts";
import { importTables } from "./price-files.ts";
import { command } from "./command.ts";
import { note, printText, commandFailure, type Io, type CommandFailure } from "./io.ts";
import { priceSettings, type Tools } from "./tools.ts";

export const pricesImport = command("prices import <sources...>", {
  summary:
    "write what differs in other projects' price tables into a new price file, and show where the tables differ; existing files stay unchanged",
  options: {
    from: { value: "<table>", help: "format of the sources (default: detected)", choices: priceTables },
    into: {
      value: "<folder>",
      help: "folder of price files (default: --pricing); without a folder, the new price file is printed",
    },
    fromDate: {
      value: "<day>",
      help: "first day of the changed prices (default: today, UTC)",
      parse: dayArgument,
    },
    provider: {
      value: "<names>",
      help: "only models of these providers, as the tables name them (default: the model families in the price files)",
      parse: namesArgument,
    },
    models: {
      value: "<patterns>",
      help: "only models whose id matches one of these patterns: 'gpt-5*,o3'",
      parse: namesArgument,
    },
    known: { help: "only models that are already in the price files" },
    group: { value: "<group>", help: "group of new models", default: "official" },
    print: { help: "print the new price file and write nothing" },
    yes: { help: "write without confirmation" },
    json: { help: "print JSON, with the new file as `yaml`; writes the file only with --yes" },
  },
  settings: priceSettings,
  examples: [
    "farebox prices import https://example.com/data.json ./model_prices_and_context_window.json --known",
    "farebox prices import data.json --models 'gpt-5*' --into my-prices --yes",
  ],
  run: async (tools, options, sources) => {
    const { prices, ask, io, settings, clock } = tools;
    const tables = await readSources(tools, sources);
    if (!tables.ok) return tables;
    const target = options.print ? null : (options.into ?? settings.pricing.folder);
    const today = new Date(clock.now()).toISOString().slice(0, 10);
    // A new folder has no files to compare with.
    const folder =
      options.into === undefined ? settings.pricing.folder : existsSync(options.into) ? options.into : null;
    const result = await importTables(
      prices,
      { ...settings.pricing, folder },
      {
        tables: tables.tables,
        from: options.from ?? null,
        fromDate: options.fromDate ?? today,
        today,
        providers: options.provider ?? null,
        models: options.models ?? null,
        group: options.group,
        withNew: !options.known,
      },
    );
    if (!result.ok) return commandFailure(result.problems, result.usage ? 2 : 1);
    const { imported } = result;
    if (!options.json) printProposal(io, imported);
    if (target === null || imported.yaml === "") return { imported, target, written: null, wasAsked: false };
    const path = join(target, imported.name);
    const isConfirmed = options.yes || (!options.json && (await ask(`Write ${path}?`)));
    if (isConfirmed === null)
      return commandFailure(
        `nothing was written to ${target}: add --yes to write without confirmation, or --print to print the file`,
      );
    if (!isConfirmed) return { imported, target, written: null, wasAsked: true };
    const written = await writeNewFile(path, imported.yaml);
    if (!written.ok) return commandFailure(written.problem, 1);
    return { imported, target, written: path, wasAsked: true };
  },
  json: ({ imported, written }) => ({ ...imported, written: written === null ? [] : [written] }),
  print: (io, { imported, target, written, wasAsked }) => {
    if (target === null) printText(io, imported.yaml);
    if (wasAsked)
      note(
        io,
        written === null
          ? "nothing was written"
          : `wrote ${written}; review it, then run farebox prices check ${target}`,
      );
  },
});

type Sources = { readonly ok: true; readonly tables: readonly PriceTableText[] } | CommandFailure;

/** Reads the tables from files and addresses, in the given order. */
async function readSources({ readFile, env }: Tools, sources: readonly string[]): Promise<Sources> {
  const tables: PriceTableText[] = [];
  for (const source of sources) {
    if (/^[a-z][a-z0-9+.-]*:\/\//i.test(source)) {
      if (!URL.canParse(source))
        return commandFailure(`"${source}" is not a valid address; write one such as https://example.com/data.json`);
      const { outbound, problems } = readOutbound(env, [new URL(source)]);
      if (problems.length > 0) return commandFailure(problems);
      const fetched = await fetchText(source, { outbound });
      if (!fetched.ok) return commandFailure(fetched.problem, 1);
      const { origin, pathname } = new URL(source);
      tables.push({ file: origin + pathname, text: fetched.text });
      continue;
    }
    const read = readFile(source);
    if (!read.ok)
      return commandFailure(
        read.code === "ENOENT" ? `there is no file ${source}` : `${source} cannot be read (${read.code})`,
      );
    tables.push({ file: source, text: read.text });
  }
  return { ok: true, tables };
}

/** Prints to stderr the proposed models, the differences between tables, and the models left out. */
function printProposal(io: Io, { proposed, unchanged, differing, left_out }: PriceImport): void {
  for (const { model, kind, entries } of proposed) {
    for (const { from, changes } of entries) {
      const words = changes.map(({ class: name, before, after }) =>
        before === null ? `${name} ${after}` : `${name} ${before} → ${after ?? "none"}`,
      );
      note(io, `${kind === "new" ? "new" : "changed"}: ${model} from ${from}: ${words.join(", ")}`);
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
