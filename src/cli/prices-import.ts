import { existsSync } from "node:fs";
import { join } from "node:path";
import { priceTables, type PriceImport, type PriceTableText } from "../ports/price-import.ts";
import { importTables } from "../server/prices.ts";
import { fetchText } from "./services/price-sources.ts";
import { writeFiles } from "../catalogue/import/write.ts";
import { dayArgument, namesArgument } from "./arguments.ts";
import { command, refusal, type Refusal } from "./command.ts";
import { note, printText, type Io } from "./io.ts";
import type { Tools } from "./tools.ts";

export const pricesImport = command("prices import <sources...>", {
  summary:
    "show where other projects' tables differ, and add their prices with a date to the folder of price files; existing entries stay unchanged",
  options: {
    from: { value: "<table>", help: "the format of the sources (default: detected)", choices: priceTables },
    into: {
      value: "<folder>",
      help: "the folder of price files (default: --pricing); without either the proposal is printed",
    },
    fromDate: {
      value: "<day>",
      help: "the day from which changed prices hold (default: today, UTC)",
      parse: dayArgument,
    },
    provider: {
      value: "<names>",
      help: "only these of the tables, as they name them (default: the families of the price files)",
      parse: namesArgument,
    },
    models: {
      value: "<patterns>",
      help: "only models whose id fits one of these: 'gpt-5*,o3'",
      parse: namesArgument,
    },
    known: { help: "only models that the price files name already" },
    group: { value: "<group>", help: "the group of models that are new", default: "official" },
    print: { help: "print the new price file and write nothing" },
    yes: { help: "write without asking" },
    json: { help: "print JSON, with the new file as `yaml`; writes with --yes only" },
  },
  settings: ["pricing"],
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
    const result = await importTables(prices, folder, {
      tables: tables.tables,
      from: options.from ?? null,
      fromDate: options.fromDate ?? today,
      today,
      providers: options.provider ?? null,
      models: options.models ?? null,
      group: options.group,
      withNew: !options.known,
    });
    if (!result.ok) return refusal(result.problems, result.usage ? 2 : 1);
    const { imported } = result;
    if (!options.json) show(io, imported);
    const files = target === null ? [] : filesOf(imported, target);
    if (files.length === 0 || target === null) return { imported, target, written: [], isAsked: false };
    const isWanted =
      options.yes || (!options.json && (await ask(`Write ${files.map(({ path }) => path).join(" and ")}?`)));
    if (isWanted === null)
      return refusal(
        `nothing was written to ${target}: give --yes to write without being asked, or --print to print the file`,
      );
    if (!isWanted) return { imported, target, written: [], isAsked: true };
    const written = await writeFiles(files);
    if (!written.ok) return refusal(written.problem, 1);
    return { imported, target, written: written.paths, isAsked: true };
  },
  json: ({ imported, written }) => ({ ...shown(imported), written }),
  print: (io, { imported, target, written, isAsked }) => {
    if (target === null) printText(io, imported.yaml);
    if (isAsked)
      note(
        io,
        written.length === 0
          ? "nothing was written"
          : `wrote ${written.join(" and ")}: review it; farebox prices check ${target} checks it`,
      );
  },
});

type Sources = { readonly ok: true; readonly tables: readonly PriceTableText[] } | Refusal;

/** Reads files and addresses in the given order. */
async function readSources({ readFile }: Tools, sources: readonly string[]): Promise<Sources> {
  const tables: PriceTableText[] = [];
  for (const source of sources) {
    if (/^[a-z][a-z0-9+.-]*:\/\//i.test(source)) {
      if (!URL.canParse(source))
        return refusal(`${source} is no address that can be read; write one such as https://example.com/data.json`);
      const fetched = await fetchText(source);
      if (!fetched.ok) return refusal(fetched.problem, 1);
      const { origin, pathname } = new URL(source);
      tables.push({ file: origin + pathname, text: fetched.text });
      continue;
    }
    const read = readFile(source);
    if (!read.ok)
      return refusal(read.code === "ENOENT" ? `there is no file ${source}` : `${source} cannot be read (${read.code})`);
    tables.push({ file: source, text: read.text });
  }
  return { ok: true, tables };
}

function filesOf({ name, yaml, edited }: PriceImport, folder: string) {
  // Entries that a person must add by hand do not create a file.
  const isNew = /^models:/m.test(yaml);
  return [...edited, ...(isNew ? [{ path: join(folder, name), before: null, after: yaml }] : [])];
}

/** Converts the import to JSON: edited files without their texts. */
function shown({ edited, ...imported }: PriceImport) {
  return { ...imported, edited: edited.map(({ path }) => path) };
}

/** Notes on stderr which models are proposed, which tables differ, and which models are left out. */
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
