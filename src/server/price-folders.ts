import type { PriceFolders } from "../catalogue/load.ts";
import type { Settings } from "../config/settings.ts";
import { presetFile, shippedPrices } from "./package.ts";

/** Settings that select the price files. */
export type PriceChoice = Pick<Settings["pricing"], "folder" | "preset">;

/** Returns the places from which a proxy or a command with these settings reads its prices. */
export function priceFolders({ folder, preset }: PriceChoice, shipped: URL = shippedPrices): PriceFolders {
  return { shipped, preset: presetFile(preset), user: folder ?? undefined };
}
