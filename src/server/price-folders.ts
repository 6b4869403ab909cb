import type { PriceFolders } from "../catalogue/load.ts";
import type { Settings } from "../config/settings.ts";
import { shippedPrices } from "./package.ts";

/** Returns the folders from which a proxy with these settings reads its prices. */
export function priceFolders({ pricing }: Pick<Settings, "pricing">): PriceFolders {
  return { shipped: shippedPrices, user: pricing.folder ?? undefined };
}
