import { shippedPrices } from "../../../src/server/package.ts";
import { similarNames } from "../../../src/catalogue/explain.ts";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { describe, expect, it } from "vitest";
import { catalogueOf, oneModel, today } from "../../support/example-catalogue.ts";

describe("find", () => {
  const dated = oneModel.replace("  big:\n", "  big:\n    aliases: [large]\n");
  const withOwnPrice = `${dated}  big-2026-02-02:
    group: half
    context_tokens: 1000
    max_output_tokens: 100
    prices: [{ from: 2026-01-01, source: "a list", official: { input: "4", output: "20" } }]
`;

  it("resolves a revision of an id or an alias to its model", () => {
    const catalogue = catalogueOf({ "a.yaml": dated });
    for (const name of ["big", "large", "big-2026-02-02", "large-20260202", "big-001", "big-latest"]) {
      expect(catalogue.find(name, today)?.id).toBe("big");
      expect(catalogue.find(name, today)).toBe(catalogue.find("big", today));
    }
  });

  it("finds a revision with its own price as itself, and does not take another model for a revision", () => {
    const catalogue = catalogueOf({ "a.yaml": withOwnPrice });
    expect(catalogue.find("big-2026-02-02", today)?.id).toBe("big-2026-02-02");
    expect(catalogue.find("big-2026-02-03", today)?.id).toBe("big");
    expect(catalogue.find("big-audio-preview", today)).toBeUndefined();
    expect(catalogue.find("big-preview-2026-02-02", today)).toBeUndefined();
  });

  it("stays correct when clients use more names than it caches", () => {
    const catalogue = catalogueOf({ "a.yaml": dated });
    const names = Array.from({ length: 3000 }, (_, index) => `big-${20260101 + (index % 28)}`);
    for (const name of names) expect(catalogue.find(name, today)?.id).toBe("big");
    for (let index = 0; index < 3000; index += 1) expect(catalogue.find(`other-${index}`, today)).toBeUndefined();
    expect(catalogue.find("big-001", today)?.id).toBe("big");
  });
});

/** Returns the catalogue of files that state these models. */
function catalogueNaming(...names: readonly string[]) {
  const [head, model] = oneModel.split("  big:\n");
  return catalogueOf({ "a.yaml": `${head}${names.map((name) => `  "${name}":\n${model}`).join("")}` });
}

describe("named", () => {
  it.each<[asked: string, files: readonly string[], found: string | undefined]>([
    ["OpenAI/GPT-4o-2024-11-20", ["gpt-4o"], "gpt-4o"],
    ["models/gemini-2.5-pro", ["gemini-2.5-pro"], "gemini-2.5-pro"],
    ["GPT-4O", ["gpt-4o"], "gpt-4o"],
    [" gpt-4o\t", ["gpt-4o"], "gpt-4o"],
    ["\uff27\uff30\uff34-4o", ["gpt-4o"], "gpt-4o"],
    ["\u212aimi", ["kimi"], "kimi"],
    ["gpt-4o", ["GPT-4o"], "GPT-4o"],
    ["通义-ü", ["通义-Ü"], "通义-Ü"],
    ["a/b/gpt-4o-latest", ["gpt-4o"], "gpt-4o"],
    ["openai/gpt-4o", ["azure/gpt-4o"], undefined],
    ["gpt-4o", ["azure/gpt-4o"], undefined],
    ["azure/gpt-4o", ["azure/gpt-4o", "gpt-4o"], "azure/gpt-4o"],
    ["Azure/gpt-4o", ["azure/gpt-4o", "gpt-4o"], "azure/gpt-4o"],
    ["openai/gpt-4o", ["azure/gpt-4o", "gpt-4o"], "gpt-4o"],
    ["AZURE/gpt-4o-2024-11-20", ["azure/gpt-4o", "gpt-4o-2024-11-20"], "azure/gpt-4o"],
    ["x/gpt-4o-2024-11-20", ["gpt-4o", "gpt-4o-2024-11-20"], "gpt-4o-2024-11-20"],
    ["GPT-4o-2024-11-20", ["gpt-4o", "gpt-4o-2024-11-20"], "gpt-4o-2024-11-20"],
    ["FOO", ["Foo", "foo"], undefined],
    ["x/FOO-latest", ["Foo", "foo"], undefined],
    ["Foo", ["Foo", "foo"], "Foo"],
    ["gpt-4o:free", ["gpt-4o"], undefined],
    ["ft:gpt-4o:acme", ["gpt-4o"], undefined],
    ["gpt-4o-audio-preview", ["gpt-4o"], undefined],
    ["gpt-4o/", ["gpt-4o"], undefined],
    ["gpt\u200b-4o", ["gpt-4o"], undefined],
    ["gpt-4\u043e", ["gpt-4o"], undefined],
    [`${"x".repeat(250)}/gpt-4o`, ["gpt-4o"], undefined],
    [`${"x".repeat(249)}/gpt-4o`, ["gpt-4o"], "gpt-4o"],
    ["", ["gpt-4o"], undefined],
  ])("finds %j among %j: %s", (asked, files, found) => {
    const catalogue = catalogueNaming(...files);
    // Twice, because found spellings are cached.
    for (let times = 0; times < 2; times += 1) {
      expect([catalogue.named(asked, today)?.id, catalogue.statedName(asked)]).toEqual([found, found]);
    }
  });

  it("finds the alias that a text spells, and no model by an alias of two", () => {
    const aliased = oneModel.replace("  big:\n", "  big:\n    aliases: [Large, team/large]\n");
    const catalogue = catalogueOf({ "a.yaml": aliased });
    expect(["x/LARGE", "large-latest", "TEAM/large", "large"].map((text) => catalogue.statedName(text))).toEqual([
      "Large",
      "Large",
      "team/large",
      "Large",
    ]);
    const other = aliased
      .replace("big", "small")
      .replace("[Large, team/large]", "[large]")
      .replace("half: {", "other: {")
      .replace("group: half", "group: other");
    const both = catalogueOf({ "a.yaml": aliased, "b.yaml": other });
    expect(["large", "Large", "LARGE", "x/large"].map((text) => both.named(text, today)?.id)).toEqual([
      "small",
      "big",
      undefined,
      undefined,
    ]);
  });
});

it("similarNames returns the most similar shipped names, or none if no name is similar", async () => {
  const loaded = await loadCatalogue({ shipped: shippedPrices, user: undefined });
  if (!loaded.ok) throw new Error("the shipped prices are faulty");
  expect(similarNames(loaded, "gpt4o")).toEqual(["gpt-4o"]);
  expect(similarNames(loaded, "nothing-of-the-kind")).toEqual([]);
});
