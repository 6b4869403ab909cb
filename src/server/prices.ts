import { buildCatalogue, type CatalogueBuilder } from "../catalogue/build.ts";
import { explainPrice, similarNames } from "../catalogue/explain.ts";
import { loadCatalogue, readPriceTexts } from "../catalogue/load.ts";
import { formatFault } from "../core/fault.ts";
import type { PriceImportParams, PriceImportResult } from "../ports/price-import.ts";

/** The shipped price files. */
export interface PriceFiles {
  readonly shipped: URL;
  /** As `buildCatalogue`, for a process that loads the same files again and again. */
  readonly build?: CatalogueBuilder;
}

/** Loads the shipped price files, then those of the folder where one is given. A fault is one line with its file and place. */
export async function loadPrices({ shipped, build = buildCatalogue }: PriceFiles, folder: string | null) {
  const loaded = await loadCatalogue({ shipped, user: folder ?? undefined }, build);
  return loaded.ok ? loaded : ({ ok: false, faults: loaded.faults.map(formatFault) } as const);
}

/** Explains a model's price; `explained` is undefined for a model without one, `near` are the names it may have meant. */
export async function explainModel(files: PriceFiles, folder: string | null, model: string, at: number) {
  const loaded = await loadPrices(files, folder);
  return loaded.ok
    ? ({ ok: true, explained: explainPrice(loaded, model, at), near: similarNames(loaded, model) } as const)
    : loaded;
}

/** Compares other projects' tables with the price files, as a price file that is valid together with those of `loadPrices`. */
export async function importTables(
  { shipped, build = buildCatalogue }: PriceFiles,
  folder: string | null,
  order: PriceImportParams,
): Promise<PriceImportResult> {
  const { importPrices } = await import("../catalogue/import/import.ts");
  const read = await readPriceTexts({ shipped, user: folder ?? undefined });
  return read.ok
    ? importPrices(read.layers, order, build)
    : { ok: false, problems: read.faults.map(formatFault), usage: false };
}
