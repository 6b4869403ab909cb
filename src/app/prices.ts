import { explainPrice, namesNear } from "../catalogue/explain.ts";
import { formatFault } from "../catalogue/fault.ts";
import { loadCatalogue } from "../catalogue/load.ts";
import type { Adapters } from "../cli/adapters.ts";

/** What the commands need of the price files. */
export function priceAdapters(shipped: URL): Pick<Adapters, "loadCatalogue" | "explainPrice"> {
  const load = (folder: string | null) => loadCatalogue({ shipped, user: folder ?? undefined });
  return {
    async loadCatalogue(folder) {
      const loaded = await load(folder);
      return loaded.ok ? loaded : { ok: false, faults: loaded.faults.map(formatFault) };
    },

    async explainPrice(folder, model, at) {
      const loaded = await load(folder);
      if (!loaded.ok) return { ok: false, faults: loaded.faults.map(formatFault) };
      return { ok: true, explained: explainPrice(loaded, model, at), near: namesNear(loaded, model) };
    },
  };
}
