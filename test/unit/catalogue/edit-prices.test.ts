import { describe, expect, it } from "vitest";
import { buildCatalogue, type PriceText } from "../../../src/catalogue/build.ts";
import { importPrices } from "../../../src/catalogue/import/import.ts";

const today = "2026-11-22";

const table = {
  file: "data.json",
  text: JSON.stringify([
    {
      id: "openai",
      models: [{ id: "model-a", match: { equals: "model-a" }, prices: { input_mtok: 3, output_mtok: 8 } }],
    },
  ]),
};

/** Returns a user's file with a model that has the given price lines. */
const file = (prices: string, after = "") => `# ours
groups: { official: { fraction: "1" } }
provider: openai
models:
  model-a:   # the one that we use
    group: official
    context_tokens: 1000
    max_output_tokens: 100
    prices:
${prices}${after}`;

function imported(text: string, fromDate = today, base: readonly (readonly PriceText[])[] = [[]]) {
  const own = [{ name: "mine/own.yaml", text }];
  const result = importPrices([...base, own], {
    tables: [table],
    from: null,
    fromDate,
    today,
    providers: null,
    models: null,
    group: "official",
    withNew: true,
  });
  if (!result.ok) throw new Error(result.problems.join("\n"));
  return result.imported;
}

const first = `      - from: 2026-01-01   # from the start
        source: "a list"
        official: { input: "2.00", output: "8.00" }
`;
const added = `      - from: 2026-11-22
        source: "price list of genai-prices (data.json), read 2026-11-22"
        official: { input: "3.00", output: "8.00" }
`;
const announced = `      # announced
      - from: 2027-01-01
        source: "a list"
        official: { input: "5.00", output: "8.00" }
`;
const another = `
  model-b: { group: official, context_tokens: 1000, max_output_tokens: 100 }
`;

describe("imported entries of a model in the user's own file", () => {
  it.each([
    ["at the end of the file", file(first), file(first + added)],
    ["at the end of a file without a last line break", file(first).trimEnd(), file(first + added)],
    ["before another model", file(first, another), file(first + added, another)],
    ["before an announced price and its comment", file(first + announced), file(first + added + announced)],
    [
      "in a list that is not indented",
      file(first).replaceAll(/^ {6}(?=[- ])/gm, "    "),
      file(first + added).replaceAll(/^ {6}(?=[- ])/gm, "    "),
    ],
    [
      "after an entry with a YAML anchor",
      file(first.replace('"a list"', '&list "a list"') + announced.replace('"a list"', "*list")),
      file(first.replace('"a list"', '&list "a list"') + added + announced.replace('"a list"', "*list")),
    ],
  ])("are inserted %s, and nothing else changes", (_, before, after) => {
    const found = imported(before);
    expect(found.edited).toEqual([{ path: "mine/own.yaml", before, after }]);
    expect(found).toMatchObject({
      yaml: "",
      proposed: [{ model: "model-a", added_to: "mine/own.yaml", by_hand: null }],
    });
    expect(buildCatalogue([[], [{ name: "mine/own.yaml", text: after }]])).toMatchObject({ ok: true });
  });

  it("are the same with a layer of a preset below the user's files, which is never edited", () => {
    const preset = [{ name: "pricing/presets/one.yaml", text: file(first) }];
    const layers = [[], preset];
    expect(imported(file(first), today, layers)).toEqual(imported(file(first)));
    // Without a file of the user, the price goes into a new file.
    const result = imported("", today, layers);
    expect(result).toMatchObject({ edited: [], name: "imported-genai-prices-2026-11-22.yaml" });
    expect(result.yaml).toContain('official: { input: "3.00", output: "8.00" }');
  });

  it.each([
    [
      "a list in brackets",
      file('      [{ from: 2026-01-01, source: "a list", official: { input: "2.00", output: "8.00" } }]\n'),
    ],
    ["CRLF line ends", file(first).replaceAll("\n", "\r\n")],
    [
      "a price that ends later, whose end must move",
      file(first.replace("        source", "        until: 2027-05-01\n        source")),
    ],
  ])("are left to be added by hand with %s", (_, text) => {
    const found = imported(text);
    expect(found).toMatchObject({
      edited: [],
      proposed: [{ added_to: null, by_hand: { file: "mine/own.yaml", line: 5 } }],
    });
    expect(found.yaml).toContain("# mine/own.yaml:5 states the model model-a: add these prices there");
    expect(found.yaml).not.toMatch(/^models:/m);
  });
});
