import { beforeAll, describe, expect, it } from "vitest";
import type { LoadedCatalogue } from "../../../src/catalogue/catalogue.ts";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { costOf } from "../../../src/core/cost.ts";
import { formatRate, formatUsd } from "../../../src/core/money.ts";
import type { Rates } from "../../../src/core/price.ts";
import { noTokens, type TokenClass } from "../../../src/core/usage.ts";

const pricing = new URL("../../../pricing/", import.meta.url);
const reviewed = Date.parse("2026-11-22T00:00:00Z");

let catalogue: LoadedCatalogue;
beforeAll(async () => {
  const loaded = await loadCatalogue({ shipped: pricing });
  if (!loaded.ok) throw new Error("the shipped prices have a fault");
  catalogue = loaded.catalogue;
});

function versionOf(model: string, at = reviewed) {
  const version = catalogue.find(model, at)?.price?.version;
  if (version === undefined) throw new Error(`${model} has no price`);
  return version;
}

const shown = (rates: Rates, ...classes: TokenClass[]) => classes.map((name) => formatRate(rates[name])).join(" ");
const base = (model: string, at = reviewed) =>
  shown(versionOf(model, at).tiers[0].list, "input", "cached_input", "output");

describe("the shipped families", () => {
  it.each([
    ["gpt-6-astra", "10.00 1.00 50.00"],
    ["gpt-6.1-sol", "2.00 0.10 10.00"],
    ["gpt-6.1-terra", "1.00 0.05 5.00"],
    ["claude-opus-5-5", "4.00 0.20 20.00"],
    ["claude-haiku-5-5", "0.10 0.01 0.50"],
    ["claude-fable-5-2", "8.00 0.20 40.00"],
    ["gemini-3.8-flash", "0.75 0.075 3.75"],
    ["grok-4.7", "2.00 0.50 6.00"],
    ["deepseek-v4-pro", "1.32 0.044 3.96"],
    ["qwen3.8-max", "2.00 0.25 6.00"],
    ["mistral-large-4", "0.70 0.07 2.10"],
    ["kimi-k3.1-pro", "2.00 0.20 10.00"],
    ["glm-5.3", "1.40 0.26 4.40"],
    ["muse-spark-1.3", "1.25 0.15 4.25"],
  ])("list %s at %s: input, cached input and output", (model, rates) => {
    expect(base(model)).toBe(rates);
  });

  it("have at least 40 models of other providers, at the official price and with estimated token counts", () => {
    const others = catalogue
      .list(reviewed)
      .filter(({ provider }) => !["openai", "anthropic", "google"].includes(provider));
    expect(new Set(others.map(({ provider }) => provider))).toEqual(
      new Set(["deepseek", "meta", "mistral", "moonshot", "qwen", "xai", "zhipu"]),
    );
    expect(others.length).toBeGreaterThanOrEqual(40);
    for (const { id, group, tokenizerIsPublic } of others)
      expect([id, group, tokenizerIsPublic]).toEqual([id, "official", false]);
  });

  it.each([
    ["gemini-3.6-flash", "2027-01-01", "0.75 0.075 3.75", "1.50 0.15 7.50", ["2.70", "0.75", "0.75"]],
    ["gemini-3.7-flash", "2027-01-01", "0.75 0.075 3.75", "1.50 0.15 7.50", ["2.70", "0.75", "0.75"]],
    ["gemini-3.8-flash", "2027-01-01", "0.75 0.075 3.75", "1.50 0.15 7.50", ["2.70", "0.75", "0.75"]],
    ["gemini-4-argon", "2026-12-01", "2.00 0.10 10.00", "4.00 0.20 20.00", ["7.20", "2.00", "2.00"]],
  ])("change %s on %s as announced, with its service tiers and fees", (model, day, before, after, tiers) => {
    const at = Date.parse(`${day}T00:00:00Z`);
    expect([base(model, at - 1), base(model, at)]).toEqual([before, after]);
    const { serviceTiers = {}, fees } = versionOf(model, at);
    expect(
      ["priority", "flex", "batch"].map((name) => serviceTiers[name]?.map(({ list }) => formatRate(list.input))),
    ).toEqual(tiers.map((rate) => [rate]));
    expect(fees?.["web_search_call"]?.list).toBe(14_000_000_000n);
  });

  it.each([
    ["gemini-flash-latest", "gemini-3.8-flash"],
    ["gemini-flash-lite-latest", "gemini-3.5-flash-lite"],
    ["gemini-pro-latest", "gemini-3.1-pro-preview"],
    ["chat-latest", "gpt-chat-latest"],
    ["claude-opus-5-5-20261014", "claude-opus-5-5"],
    ["mistral-large-latest", "mistral-large-2512"],
    ["GLM-5.3-Flash", "glm-5.3-flash"],
  ])("resolve %s to %s", (name, id) => {
    expect(catalogue.find(name, reviewed)?.id).toBe(id);
  });

  it.each([
    ["gpt-6-sol", 272_000, "0.544", 272_001, "1.088004"],
    ["claude-haiku-5-5", 100_000, "0.01", 100_001, "0.0500005"],
    // The list says "at or above 200k".
    ["grok-4.7", 199_999, "0.399998", 200_000, "0.80"],
    ["qwen3-coder-plus", 256_000, "0.768", 256_001, "1.536006"],
  ])("charge all tokens of a long prompt of %s by its tier", (model, short, cheap, long, expensive) => {
    const cost = (input: number) => formatUsd(costOf(versionOf(model), { ...noTokens, input }).charged);
    expect([cost(short), cost(long)]).toEqual([cheap, expensive]);
  });

  it("price text and images of image models separately, for the images endpoints only", () => {
    for (const model of [
      "gpt-image-1-mini",
      "gpt-image-1.5",
      "gpt-image-2",
      "gpt-image-2.5-flare",
      "gpt-image-2.5-sunburst",
    ]) {
      expect(catalogue.find(model, reviewed)).toMatchObject({ imagesOnly: true });
    }
    expect(shown(versionOf("gpt-image-1.5").tiers[0].list, "input", "image_input", "output", "image_output")).toBe(
      "5.00 8.00 10.00 32.00",
    );
    expect(shown(versionOf("gpt-image-2").tiers[0].list, "image_input", "image_output")).toBe("8.00 30.00");
  });

  it("charge embeddings only for their input", () => {
    for (const [model, rate] of [
      ["gemini-embedding-001", "0.15"],
      ["gemini-embedding-2", "0.20"],
    ] as const) {
      expect(shown(versionOf(model).tiers[0].list, "input", "output")).toBe(`${rate} 0.00`);
    }
  });
});
