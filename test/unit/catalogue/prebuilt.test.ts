import { mkdtempDisposableSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { readPriceTexts } from "../../../src/catalogue/load.ts";
import { prebuiltCatalogue, prebuiltContent } from "../../../src/catalogue/prebuilt.ts";
import { shippedPrices } from "../../../src/server/package.ts";
import { buildOnce } from "../../support/built-catalogues.ts";

/** Layer of a preset that changes one share. */
const preset = [{ name: "preset.yaml", text: 'groups: { large-general: { fraction: "1" } }\n' }];

/** Returns the shipped texts, their catalogues without and with a preset, and a file in the format of the package's build. */
async function prebuilt(folder: string) {
  const read = await readPriceTexts({ shipped: shippedPrices });
  const [built, withPreset] = read.ok ? [buildOnce(read.layers), buildOnce([...read.layers, preset])] : [read, read];
  if (!read.ok || !built.ok || !withPreset.ok) throw new Error("the shipped prices have faults");
  const file = pathToFileURL(join(folder, "shipped.bin"));
  const { layers } = read;
  writeFileSync(
    file,
    prebuiltContent([
      [layers, built.catalogue],
      [[...layers, preset], withPreset.catalogue],
    ]),
  );
  return { shipped: layers[0] ?? [], catalogue: built.catalogue, withPreset: withPreset.catalogue, file };
}

it("a stored catalogue equals one built from the same texts", async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), "farebox-"));
  const { shipped, catalogue, file } = await prebuilt(folder.path);
  expect(prebuiltCatalogue([shipped], file)?.data).toEqual(catalogue.data);
  expect(prebuiltCatalogue([shipped, []], file)?.digest).toBe(catalogue.digest);
  expect(catalogue.data.entries.length).toBeGreaterThan(100);
});

it("each preset has its own stored catalogue", async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), "farebox-"));
  const { shipped, catalogue, withPreset, file } = await prebuilt(folder.path);
  expect(prebuiltCatalogue([shipped, preset], file)?.data).toEqual(withPreset.data);
  expect(prebuiltCatalogue([shipped, preset, []], file)?.digest).toBe(withPreset.digest);
  expect(prebuiltCatalogue([shipped], file)?.digest).toBe(catalogue.digest);
  expect(withPreset.digest).not.toBe(catalogue.digest);
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
