import type { ReadYaml } from "../ports/yaml.ts";
import { readYaml } from "../platform/yaml.ts";
import { priceFileSchema, type PriceFile } from "./schema.ts";

export type { Path } from "../ports/yaml.ts";

/** A price file as it was read. */
export type ReadFile = ReadYaml<PriceFile>;

/** Reads one price file's text and checks its shape; pure, and total over any text. */
export function readPriceFile(name: string, text: string): ReadFile {
  return readYaml(name, text, { noun: "a price file", schema: priceFileSchema });
}
