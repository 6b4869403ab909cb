import { buildCatalogue, type CatalogueBuilder } from "../catalogue/build.ts";
import { explainPrice, similarNames } from "../catalogue/explain.ts";
import { formatFault } from "../core/fault.ts";
import { loadCatalogue, readPriceTexts } from "../catalogue/load.ts";
import type { Adapters } from "../cli/adapters.ts";

/** What the commands need of the price files. `build`: as `buildCatalogue`, for a process that loads the same files again and again. */
export function priceAdapters(
  shipped: URL,
  build: CatalogueBuilder = buildCatalogue,
): Pick<Adapters, "loadCatalogue" | "explainPrice" | "importPrices" | "writePriceFiles" | "download"> {
  const load = (folder: string | null) => loadCatalogue({ shipped, user: folder ?? undefined }, build);
  return {
    async loadCatalogue(folder) {
      const loaded = await load(folder);
      return loaded.ok ? loaded : { ok: false, faults: loaded.faults.map(formatFault) };
    },

    async explainPrice(folder, model, at) {
      const loaded = await load(folder);
      if (!loaded.ok) return { ok: false, faults: loaded.faults.map(formatFault) };
      return { ok: true, explained: explainPrice(loaded, model, at), near: similarNames(loaded, model) };
    },

    async importPrices(folder, order) {
      const { importPrices } = await import("../catalogue/import/import.ts");
      const read = await readPriceTexts({ shipped, user: folder ?? undefined });
      return read.ok
        ? importPrices(read.layers, order, build)
        : { ok: false, problems: read.faults.map(formatFault), usage: false };
    },

    async writePriceFiles(files) {
      const { writeFiles } = await import("../catalogue/import/write.ts");
      return writeFiles(files);
    },

    async download(address) {
      const { fetchText } = await import("./price-sources.ts");
      return fetchText(address);
    },
  };
}
