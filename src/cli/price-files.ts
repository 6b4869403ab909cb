import { buildCatalogue, type CatalogueBuilder } from "../catalogue/build.ts";
import { loadCatalogue, readPriceTexts } from "../catalogue/load.ts";
import { formatFault } from "../core/fault.ts";
import { priceFolders, type PriceChoice } from "../server/price-folders.ts";
import type { PriceImportParams, PriceImportResult } from "../ports/price-import.ts";

/** Shipped price files, and the function that builds a catalogue. */
export interface PriceFiles {
  readonly shipped: URL;
  /** Replacement for `buildCatalogue`, for a process that loads the same files repeatedly. */
  readonly build?: CatalogueBuilder;
}

/**
 * Loads the shipped price files, then those of the preset and of the user's folder. Each fault is one line with its
 * file and position.
 */
export async function loadPrices({ shipped, build = buildCatalogue }: PriceFiles, chosen: PriceChoice) {
  const loaded = await loadCatalogue(priceFolders(chosen, shipped), build);
  return loaded.ok ? loaded : ({ ok: false, faults: loaded.faults.map(formatFault) } as const);
}

/** Compares price tables of other projects with the price files. Proposes new and edited price files. */
export async function importTables(
  { shipped, build = buildCatalogue }: PriceFiles,
  chosen: PriceChoice,
  params: PriceImportParams,
): Promise<PriceImportResult> {
  const { importPrices } = await import("../catalogue/import/import.ts");
  const read = await readPriceTexts(priceFolders(chosen, shipped));
  return read.ok
    ? importPrices(chosen.folder === null ? [...read.layers, []] : read.layers, params, build)
    : { ok: false, problems: read.faults.map(formatFault), usage: false };
}
