import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { loadCatalogue } from "../../src/catalogue/load.ts";
import { usd } from "../../src/core/money.ts";
import type { Preset, PriceVersion } from "../../src/core/price.ts";
import { tokenClasses } from "../../src/core/usage.ts";
import type { Catalogue } from "../../src/ports/catalogue.ts";
import { priceFolders } from "../../src/server/price-folders.ts";
import type { PricesDiffJson, WhatIfJson } from "../../src/reporting/shapes/commands.ts";
import type { PriceListJson } from "../../src/reporting/shapes/prices.ts";
import { createKey } from "../../src/admin/key-changes.ts";
import { buildOnce } from "../support/built-catalogues.ts";
import { harness, type Harness } from "../support/cli-harness.ts";
import { spend } from "../support/cli-traffic.ts";
import { oneModelFile, priceFolder } from "../support/price-files.ts";
import { startProxy } from "../support/running-proxy.ts";

const today = Date.parse("2026-11-22T12:00:00Z");

async function catalogueWith(preset: Preset, folder: string | null = null): Promise<Catalogue> {
  const loaded = await loadCatalogue(priceFolders({ preset, folder }), buildOnce);
  if (!loaded.ok) throw new Error(loaded.faults.map(({ message }) => message).join("\n"));
  return loaded.catalogue;
}

/** Returns every stated price of a catalogue: those of all models, at all times, and of their tasks. */
function versionsOf(catalogue: Catalogue): readonly PriceVersion[] {
  return catalogue
    .histories()
    .flatMap(({ spans, tasks = [] }) => [
      ...spans.map(({ model }) => model.price),
      ...tasks.flatMap((task) => task.spans.map(({ price }) => price)),
    ])
    .flatMap((price) => (price === null ? [] : [price.version]));
}

describe("the preset official", () => {
  let piapi: Catalogue;
  let official: Catalogue;
  beforeAll(
    async () => void ([piapi, official] = await Promise.all([catalogueWith("piapi"), catalogueWith("official")])),
  );

  it("charges the official price for each model, day, tier, service tier, class and fee, without a minimum", () => {
    const versions = versionsOf(official);
    expect(versions.length).toBeGreaterThan(190);
    for (const { model, tiers, serviceTiers = {}, fees = {}, perRequest, task, minimum } of versions) {
      for (const tier of [tiers, ...Object.values(serviceTiers)].flat()) {
        for (const name of tokenClasses)
          expect([model, name, tier.charged[name]]).toEqual([model, name, tier.list[name]]);
      }
      for (const fee of [...Object.values(fees), perRequest, task]) if (fee) expect(fee.charged, model).toBe(fee.list);
      expect([model, minimum]).toEqual([model, { tokens: 0, usd: 0n }]);
    }
  });

  it("changes neither the models nor their days, sizes and official prices", () => {
    const unchanged = (catalogue: Catalogue) =>
      catalogue.histories().map(({ id, aliases, spans }) => ({
        id,
        aliases,
        spans: spans.map(({ start, model: { price, ...traits } }) => ({
          start,
          traits,
          list: price && {
            ...price.version,
            fraction: null,
            source: null,
            tierMode: null,
            minimum: null,
            tiers: price.version.tiers.map(({ fromPromptTokens, list }) => ({ fromPromptTokens, list })),
            serviceTiers: Object.entries(price.version.serviceTiers ?? {}).map(([name, tiers]) => [
              name,
              tiers.map(({ fromPromptTokens, list }) => ({ fromPromptTokens, list })),
            ]),
            perRequest: price.version.perRequest?.list,
            fees: Object.entries(price.version.fees ?? {}).map(([name, { list, inputTokens }]) => [
              name,
              list,
              inputTokens,
            ]),
          },
        })),
      }));
    expect(unchanged(official)).toEqual(unchanged(piapi));
    expect(official.digest).not.toBe(piapi.digest);
  });

  it("charges cached input at its own official rate, and the shares of piapi no longer apply", () => {
    const ratesOf = (catalogue: Catalogue, model: string) => {
      const charged = catalogue.find(model, today)?.price?.version.tiers[0].charged;
      return [charged?.input, charged?.cached_input, charged?.output];
    };
    expect(ratesOf(piapi, "gpt-4o")).toEqual([1_250_000n, 1_250_000n, 5_000_000n]);
    expect(ratesOf(official, "gpt-4o")).toEqual([2_500_000n, 1_250_000n, 10_000_000n]);
    // piapi states absolute rates for this model.
    expect(ratesOf(piapi, "claude-opus-4-6").slice(0, 1)).toEqual([3_750_000n]);
    expect(ratesOf(official, "claude-opus-4-6")).toEqual([5_000_000n, 500_000n, 25_000_000n]);
  });

  it("is overridden by the user's files", async () => {
    using own = priceFolder(oneModelFile("gpt-4o", [{ from: "2026-01-01", input: "7", output: "9" }]));
    const catalogue = await catalogueWith("official", own.path);
    const rates = (id: string) => catalogue.find(id, today)?.price?.version.tiers[0].charged.input;
    expect([rates("gpt-4o"), rates("gpt-4o-mini")]).toEqual([7_000_000n, 150_000n]);
  });
});

it.each<[Preset, charged: string]>([
  // 1,000 prompt tokens of which 800 cached, and 100 of output: at half of 2.50 and 10.00, cached as input
  ["piapi", "0.00175"],
  // at 2.50, cached 1.25, and 10.00
  ["official", "0.0025"],
])("with the preset %s, a request costs %s", async (preset, charged) => {
  await using proxy = await startProxy({ env: { FAREBOX_PRESET: preset } });
  const answer = await proxy.chat({
    messages: [{ role: "user", content: "#sandbox tokens:100+prompt:1000+cached:800" }],
  });
  expect(answer.status).toBe(200);
  expect((await proxy.onlyCharge()).cost).toBe(usd(charged));
});

describe("commands read the prices of the preset", () => {
  const inputOf = async (farebox: Harness, ...words: string[]) => {
    const { models } = await farebox.json<PriceListJson>("prices", "list", ...words);
    return models[0]?.price?.tiers[0]?.gateway_usd_per_million.input;
  };

  it("from the flag, the environment and the settings file", async () => {
    using farebox = harness();
    expect(await inputOf(farebox)).toBe("1.00");
    expect(await inputOf(farebox, "--preset", "official")).toBe("2.00");
    farebox.env["FAREBOX_PRESET"] = "official";
    expect(await inputOf(farebox)).toBe("2.00");
    expect(await inputOf(farebox, "--preset", "piapi")).toBe("1.00");
    delete farebox.env["FAREBOX_PRESET"];
    const file = join(farebox.folder, "farebox.yaml");
    writeFileSync(file, "preset: official\n", { mode: 0o600 });
    farebox.env["FAREBOX_CONFIG"] = file;
    expect(await inputOf(farebox)).toBe("2.00");
    expect((await farebox.run("prices", "list", "--preset", "mine")).code).toBe(2);
  });

  it("in prices show and estimate", async () => {
    using farebox = harness();
    const words = ["--model", "model-a", "--input-tokens", "1000", "--output-tokens", "0", "--preset", "official"];
    expect(JSON.stringify(await farebox.json("estimate", ...words))).toContain('"0.002"');
    const shown = JSON.stringify(await farebox.json("prices", "show", "model-a", "--preset", "official"));
    expect(shown).toContain('"gateway_usd_per_million":"8.00"');
  });

  it("in prices diff and report --what-if, where shipped means the shipped files with the preset", async () => {
    using farebox = harness();
    const folder = join(farebox.folder, "own");
    mkdirSync(folder);
    writeFileSync(
      join(folder, "mine.yaml"),
      oneModelFile("model-a", [{ from: "2026-01-01", input: "3", output: "8" }]),
    );
    const changed = async (...words: string[]) =>
      (await farebox.json<PricesDiffJson>("prices", "diff", ...words)).changes
        .filter(({ field }) => field === "gateway.input" || field === "gateway.output")
        .map(({ field, before, after }) => [field, before, after]);
    expect(await changed("shipped", folder)).toEqual([
      ["gateway.input", "1.00", "3.00"],
      ["gateway.output", "4.00", "8.00"],
    ]);
    expect(await changed("shipped", folder, "--preset", "official")).toEqual([["gateway.input", "2.00", "3.00"]]);
    await using store = await farebox.open();
    const created = await createKey({ keys: store.keys, clock: farebox.clock, by: "test" }, { name: "alice" });
    if (!created.ok) throw new Error("no key");
    await spend(store.ledger, {
      id: "one",
      at: farebox.clock.now() - 60_000,
      key: created.key.id,
      input: 1000,
      output: 500,
    });
    const whatIf = async (...words: string[]) =>
      (await farebox.json<WhatIfJson>("report", "--what-if", "shipped", ...words)).total.what_if.cost_usd;
    expect(await whatIf()).toBe("0.003");
    expect(await whatIf("--preset", "official")).toBe("0.006");
  });
});
