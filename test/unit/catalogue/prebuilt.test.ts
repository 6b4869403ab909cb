import { mkdtempDisposableSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { readPriceTexts } from "../../../src/catalogue/load.ts";
import { prebuiltCatalogue, prebuiltContent } from "../../../src/catalogue/prebuilt.ts";
import { shippedPrices } from "../../../src/server/package.ts";

/** Returns the shipped texts, their catalogue, and a file in the format of the package's build. */
async function prebuilt(folder: string) {
  const read = await readPriceTexts({ shipped: shippedPrices });
  const built = read.ok ? buildCatalogue(read.layers) : read;
  if (!read.ok || !built.ok) throw new Error("the shipped prices have faults");
  const file = pathToFileURL(join(folder, "shipped.bin"));
  writeFileSync(file, prebuiltContent(read.layers, built.catalogue));
  return { shipped: read.layers[0] ?? [], catalogue: built.catalogue, file };
}

it("a stored catalogue equals one built from the same texts", async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), "farebox-"));
  const { shipped, catalogue, file } = await prebuilt(folder.path);
  expect(prebuiltCatalogue([shipped], file)?.data).toEqual(catalogue.data);
  expect(prebuiltCatalogue([shipped, []], file)?.digest).toBe(catalogue.digest);
  expect(catalogue.data.entries.length).toBeGreaterThan(100);
});

it("a stored catalogue is not used for other texts", async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), "farebox-"));
  const { shipped, file } = await prebuilt(folder.path);
  const edited = shipped.map(({ name, text }, index) => ({ name, text: index === 0 ? `${text}\n` : text }));
  expect(prebuiltCatalogue([edited], file)).toBeUndefined();
  expect(prebuiltCatalogue([shipped, [{ name: "own.yaml", text: "" }]], file)).toBeUndefined();
  expect(prebuiltCatalogue([shipped.slice(1)], file)).toBeUndefined();
});

it("a missing or damaged file is not used", async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), "farebox-"));
  const { shipped, file } = await prebuilt(folder.path);
  expect(prebuiltCatalogue([shipped], new URL("none.bin", file))).toBeUndefined();
  writeFileSync(file, "damaged");
  expect(prebuiltCatalogue([shipped], file)).toBeUndefined();
});
