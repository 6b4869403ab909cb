import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { deserialize, serialize } from "node:v8";
import type { PriceText } from "./build.ts";
import { catalogueOf, type CatalogueData, type LoadedCatalogue } from "./catalogue.ts";

export type PriceLayers = readonly (readonly PriceText[])[];

/**
 * Catalogue that the package's build stores. `texts` is the fingerprint of the texts from which it was built. `data` is
 * serialized, so that a start reads only the catalogue that it needs.
 */
interface Prebuilt {
  readonly texts: string;
  readonly data: Uint8Array;
}

/** File in the package that contains the prebuilt catalogues, one for each preset. A checkout does not have this file. */
const prebuiltFile = new URL("./shipped.bin", import.meta.url);

/** Returns the content of `prebuiltFile` for catalogues, each with the texts from which it was built. */
export function prebuiltContent(built: readonly (readonly [PriceLayers, LoadedCatalogue])[]): Buffer {
  return serialize(
    built.map(([layers, { data }]): Prebuilt => ({ texts: fingerprint(layers), data: serialize(data) })),
  );
}

/**
 * Returns the catalogue of these texts if the package contains it; undefined otherwise. A prebuilt catalogue saves
 * parsing the shipped files at each start.
 */
export function prebuiltCatalogue(layers: PriceLayers, file: URL = prebuiltFile): LoadedCatalogue | undefined {
  const texts = fingerprint(layers.filter((files) => files.length > 0));
  try {
    const found = (deserialize(readFileSync(file)) as readonly Prebuilt[]).find((each) => each.texts === texts);
    return found && catalogueOf(deserialize(found.data) as CatalogueData);
  } catch {
    return undefined;
  }
}

/** Returns a digest that is equal only for equal texts. */
export function fingerprint(texts: unknown): string {
  return createHash("sha256").update(JSON.stringify(texts)).digest("hex");
}
