import { expect, it } from "vitest";
import { loadCatalogue, readPriceTexts } from "../../../src/catalogue/load.ts";
import { presets } from "../../../src/core/price.ts";
import { priceFolders } from "../../../src/server/price-folders.ts";
import { buildOnce } from "../../support/built-catalogues.ts";
import { pricing } from "../../support/example-catalogue.ts";

it.each(presets)("the preset %s is a valid layer between the shipped files and the user's", async (preset) => {
  expect((await loadCatalogue(priceFolders({ preset, folder: null }), buildOnce)).ok).toBe(true);
  const read = await readPriceTexts(priceFolders({ preset, folder: "test/support/prices" }));
  const names = read.ok ? read.layers.map((layer) => layer.map(({ name }) => name)) : [];
  expect(names[0]).toContain("pricing/openai.yaml");
  expect(names.slice(1, -1)).toEqual(preset === "piapi" ? [] : [[`pricing/presets/${preset}.yaml`]]);
  expect(names.at(-1)?.every((name) => name.startsWith("test/support/prices/"))).toBe(true);
});

it("without a folder and with the preset piapi, only the shipped files are read", () => {
  expect(priceFolders({ preset: "piapi", folder: null })).toEqual({ shipped: pricing });
});
