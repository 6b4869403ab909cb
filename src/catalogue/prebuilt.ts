import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { deserialize, serialize } from "node:v8";
import type { PriceText } from "./build.ts";
import { catalogueOf, type CatalogueData, type LoadedCatalogue } from "./catalogue.ts";

export type PriceLayers = readonly (readonly PriceText[])[];

/** Catalogue that the package's build stores. `texts` is the fingerprint of the texts from which it was built. */
interface Prebuilt {
  readonly texts: string;
  readonly data: CatalogueData;
}

/** File in the package that contains the prebuilt catalogue. A checkout does not have this file. */
const prebuiltFile = new URL("./shipped.bin", import.meta.url);

/** Returns the content of `prebuiltFile` for a catalogue that was built from these texts. */
export function prebuiltContent(layers: PriceLayers, { data }: LoadedCatalogue): Buffer {
  return serialize({ texts: fingerprint(layers), data } satisfies Prebuilt);
}

/**
 * Returns the catalogue of these texts if the package contains it; undefined otherwise. A prebuilt catalogue saves
 * parsing the shipped files at each start.
 */
export function prebuiltCatalogue(layers: PriceLayers, file: URL = prebuiltFile): LoadedCatalogue | undefined {
  let prebuilt: Prebuilt;
  try {
    prebuilt = deserialize(readFileSync(file)) as Prebuilt;
  } catch {
    return undefined;
  }
  const stated = layers.filter((texts) => texts.length > 0);
  return prebuilt.texts === fingerprint(stated) ? catalogueOf(prebuilt.data) : undefined;
}

/** Returns a digest that is equal only for equal texts. */
export function fingerprint(texts: unknown): string {
  return createHash("sha256").update(JSON.stringify(texts)).digest("hex");
}
