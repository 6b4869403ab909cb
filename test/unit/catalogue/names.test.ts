import { shippedPrices } from "../../../src/server/package.ts";
import { similarNames } from "../../../src/catalogue/explain.ts";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { describe, expect, it } from "vitest";
import { baseName } from "../../../src/catalogue/catalogue.ts";
import { catalogueOf, oneModel, today } from "../../support/example-catalogue.ts";

describe("baseName", () => {
  it.each([
    ["gpt-4o-2024-11-20", "gpt-4o"],
    ["claude-sonnet-4-6-20260101", "claude-sonnet-4-6"],
    ["claude-sonnet-4@20250514", "claude-sonnet-4"],
    ["gemini-2.5-flash-001", "gemini-2.5-flash"],
    ["gemini-2.5-flash-latest", "gemini-2.5-flash"],
    ["gpt-4-0613", "gpt-4"],
    ["m-latest-2024-11-20", "m-latest"],
  ])("removes the revision from %s", (name, base) => {
    expect(baseName(name)).toBe(base);
  });

  it.each([
    "gpt-4o",
    "gpt-4o-audio-preview",
    "gpt-4o-mini",
    "gpt-4o-2024-13-20",
    "gpt-4o-2024-11-00",
    "gpt-4o-1999-11-20",
    "gpt-4o-2024-11",
    "gpt-4-1306",
    "gpt-4-32k",
    "gpt-5-2",
    "gemini-2.5-flash-123",
    "gpt-4o-20241120-x",
    "gpt-4o-latest2",
    "-latest",
    "2024-11-20",
    `${"m".repeat(128)}-latest`,
  ])("finds no revision in %s", (name) => {
    expect(baseName(name)).toBeUndefined();
  });
});

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

it("similarNames returns the most similar shipped names, or none if no name is similar", async () => {
  const loaded = await loadCatalogue({ shipped: shippedPrices, user: undefined });
  if (!loaded.ok) throw new Error("the shipped prices are faulty");
  expect(similarNames(loaded, "gpt4o")).toEqual(["gpt-4o"]);
  expect(similarNames(loaded, "nothing-of-the-kind")).toEqual([]);
});
