import { buildCatalogue, type CatalogueResult } from "../../src/catalogue/build.ts";
import type { LoadedCatalogue } from "../../src/catalogue/catalogue.ts";
import { formatFault } from "../../src/core/fault.ts";

export const pricing = new URL("../../pricing/", import.meta.url);

export const today = Date.parse("2026-11-20T12:00:00Z");

/** Builds a catalogue layer from texts by file name. */
export function layer(files: Readonly<Record<string, string>>) {
  return Object.entries(files).map(([name, text]) => ({ name, text }));
}

/** Price file of one model with one price. */
export const oneModel = `groups:
  half: { fraction: "0.5" }
provider: example
models:
  big:
    group: half
    tokenizer: o200k_base
    context_tokens: 1000
    max_output_tokens: 100
    prices:
      - from: 2026-01-01
        source: "a list"
        official: { input: "2.00", output: "10.00" }
`;

export function expectCatalogue(result: CatalogueResult): LoadedCatalogue {
  if (!result.ok) throw new Error(result.faults.map(formatFault).join("\n"));
  return result.catalogue;
}

export function faultsOf(result: CatalogueResult): string[] {
  return result.ok ? [] : result.faults.map(formatFault);
}

export function catalogueOf(...layers: Readonly<Record<string, string>>[]): LoadedCatalogue {
  return expectCatalogue(buildCatalogue(layers.map(layer)));
}

export function faults(...layers: Readonly<Record<string, string>>[]): string[] {
  return faultsOf(buildCatalogue(layers.map(layer)));
}
