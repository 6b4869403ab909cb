import { describe, expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { checkPrices, importPrices } from "../../../src/catalogue/import/import.ts";
import { formatRate } from "../../../src/core/money.ts";
import type { PriceImport, PriceImportParams } from "../../../src/ports/price-import.ts";

const today = "2026-11-22";

const own = (more = "") => ({
  name: "pricing/own.yaml",
  text: `groups: { official: { fraction: "1" } }
provider: openai
defaults: { context_tokens: 1000000, max_output_tokens: 100000 }
models:
  model-a:
    group: official
    prices:
      - from: 2026-01-01
        source: "a list"
        official: { input: "2.00", cached_input: "0.20", output: "8.00" }
${more}`,
});

const genai = (prices: object, more: object = {}, others: readonly object[] = []) => ({
  file: "data.json",
  text: JSON.stringify([
    { id: "openai", models: [{ id: "model-a", match: { equals: "model-a" }, prices, ...more }, ...others] },
  ]),
});
const litellm = (fields: object, others: object = {}) => ({
  file: "https://tables.example/model_prices.json",
  text: JSON.stringify({ "model-a": { litellm_provider: "openai", mode: "chat", ...fields }, ...others }),
});
const genaiAsOurs = { input_mtok: 2, cache_read_mtok: 0.2, output_mtok: 8 };
const litellmAsOurs = { input_cost_per_token: 2e-6, cache_read_input_token_cost: 2e-7, output_cost_per_token: 8e-6 };

const defaults: Omit<PriceImportParams, "tables"> = {
  from: null,
  fromDate: today,
  today,
  providers: null,
  models: null,
  group: "official",
  withNew: true,
};

function imported(
  tables: PriceImportParams["tables"],
  more: Partial<PriceImportParams> = {},
  layers = [[own()]],
): PriceImport {
  const result = importPrices(layers, { tables, ...defaults, ...more });
  if (!result.ok) throw new Error(result.problems.join("\n"));
  return result.imported;
}

/** Returns all proposed changes as "class before after". */
const changes = ({ proposed }: PriceImport) =>
  proposed.flatMap(({ entries }) =>
    entries.flatMap((entry) => entry.changes.map((each) => `${each.class} ${each.before} ${each.after}`)),
  );

describe("several tables", () => {
  it("propose nothing if all equal the prices in force", () => {
    expect(imported([genai(genaiAsOurs), litellm(litellmAsOurs)])).toMatchObject({
      proposed: [],
      unchanged: 1,
      differing: [],
      left_out: [],
    });
  });

  it("propose a rate on which all agree, with all of them as the source", () => {
    const found = imported([
      genai({ ...genaiAsOurs, input_mtok: 3 }),
      litellm({ ...litellmAsOurs, input_cost_per_token: 3e-6 }),
    ]);
    expect(changes(found)).toEqual(["input 2.00 3.00"]);
    expect(found.yaml).toContain(
      'source: "price list of genai-prices (data.json) and litellm (model_prices.json), read 2026-11-22"',
    );
  });

  it("propose a rate that only one of them states", () => {
    const found = imported([
      genai({ ...genaiAsOurs, web_searches_kcount: 10 }),
      litellm({ ...litellmAsOurs, cache_creation_input_token_cost: 2.5e-6 }),
    ]);
    expect(changes(found)).toEqual(["cache_write 2.00 2.50", "web_search_call null 0.01"]);
    expect(found.yaml).toContain(`    change:
      # input_tokens of a new fee is assumed: the table states none
      from: 2026-11-22
`);
  });

  it("keep a rate on which they differ, and report it", () => {
    const found = imported([
      genai({ ...genaiAsOurs, input_mtok: 3, cache_read_mtok: 0.3 }),
      litellm({ ...litellmAsOurs, input_cost_per_token: 3e-6 }),
    ]);
    expect(changes(found)).toEqual(["input 2.00 3.00"]);
    expect(found.yaml).toContain('official: { input: "3.00" }');
    expect(found.differing).toEqual([
      {
        model: "model-a",
        class: "cached_input",
        stated: [
          { table: "genai-prices (data.json)", value: "0.30" },
          { table: "litellm (model_prices.json)", value: "0.20" },
        ],
      },
    ]);
  });

  it.each([
    ["output", genai({ ...genaiAsOurs, output_mtok: 9 }), litellm(litellmAsOurs)],
    ["tiers", genai(genaiAsOurs), litellm({ ...litellmAsOurs, input_cost_per_token_above_200k_tokens: 4e-6 })],
    ["request", genai({ requests_kcount: 5 }), litellm(litellmAsOurs)],
  ])("leave a model out if they differ on %s", (name, one, other) => {
    const found = imported([one, other]);
    expect(found.proposed).toEqual([]);
    if (name !== "request") expect(found.left_out).toEqual([{ model: "model-a", why: `the tables differ on ${name}` }]);
  });

  it("propose a price that one of them announces", () => {
    const prices = [
      { prices: genaiAsOurs },
      { constraint: { start_date: "2027-01-01" }, prices: { ...genaiAsOurs, output_mtok: 16 } },
    ];
    const found = imported([genai(prices), litellm(litellmAsOurs)]);
    expect(found.proposed[0]?.entries.map(({ from }) => from)).toEqual(["2027-01-01"]);
    expect(changes(found)).toEqual(["output 8.00 16.00"]);
  });

  it("propose a new model once if it has different names", () => {
    const fresh = {
      id: "model-b",
      match: { or: [{ equals: "model-b" }, { equals: "model-b-latest" }] },
      context_window: 5000,
      prices: { input_mtok: 1, output_mtok: 2 },
    };
    const found = imported([
      genai(genaiAsOurs, {}, [fresh]),
      litellm(litellmAsOurs, {
        "model-b-latest": {
          litellm_provider: "openai",
          mode: "chat",
          max_input_tokens: 4000,
          max_output_tokens: 500,
          input_cost_per_token: 1e-6,
          output_cost_per_token: 2e-6,
        },
      }),
    ]);
    expect(found.proposed.map(({ model, kind }) => [model, kind])).toEqual([["model-b", "new"]]);
    expect(found.yaml).toMatch(/aliases: \[ model-b-latest \]\n[^]*context_tokens: 5000\n {4}max_output_tokens: 500\n/);
    expect(buildCatalogue([[own()], [{ name: found.name, text: found.yaml }]])).toMatchObject({ ok: true });
  });

  it("are each recognized by their shape", () => {
    expect(imported([litellm(litellmAsOurs), genai({ ...genaiAsOurs, cache_write_mtok: 3 })])).toMatchObject({
      name: "imported-2026-11-22.yaml",
      proposed: [{ model: "model-a" }],
    });
    const result = importPrices([[own()]], { ...defaults, tables: [{ file: "odd.json", text: "[]" }] });
    expect(result).toMatchObject({
      ok: false,
      problems: [expect.stringMatching(/^odd\.json is not a known table: /)],
    });
  });
});

describe("service tiers", () => {
  const variants = [
    {
      when: { processing: "batch" },
      constraint: { start_date: "2027-01-01" },
      prices: { input_mtok: 5, output_mtok: 5 },
    },
    {
      when: { processing: "batch" },
      constraint: { start_date: "2026-10-14" },
      prices: { input_mtok: 1, output_mtok: { base: 4, tiers: [{ start: 200000, price: 6 }] } },
    },
    { when: { service_tier: "flex" }, prices: { input_mtok: 1, cache_read_mtok: 0.1, output_mtok: 4 } },
    { when: { service_tier: "default" }, prices: {} },
    { when: { speed: "fast" }, prices: { input_mtok: 9, output_mtok: 9 } },
  ];

  it("are read from both formats, by their days", () => {
    const found = imported([genai(genaiAsOurs, { price_variants: variants })]);
    expect(changes(found)).toEqual([
      "flex input null 1.00",
      "flex cached_input null 0.10",
      "flex output null 4.00",
      "batch input null 1.00",
      "batch output null 4.00",
      "batch input from 200001 tokens null 1.00",
      "batch output from 200001 tokens null 6.00",
    ]);
    const fields = {
      ...litellmAsOurs,
      input_cost_per_token_priority: 4e-6,
      output_cost_per_token_priority: 1.6e-5,
      output_cost_per_token_batches: 4e-6,
    };
    expect(changes(imported([litellm(fields)]))).toEqual(["priority input null 4.00", "priority output null 16.00"]);
  });

  it("are proposed if the tables agree, and not proposed again", () => {
    const fields = {
      ...litellmAsOurs,
      input_cost_per_token_flex: 1e-6,
      cache_read_input_token_cost_flex: 2e-7,
      output_cost_per_token_flex: 4e-6,
    };
    const flex = [{ when: { service_tier: "flex" }, prices: { input_mtok: 1, cache_read_mtok: 0.1, output_mtok: 4 } }];
    const found = imported([genai(genaiAsOurs, { price_variants: flex }), litellm(fields)]);
    expect(changes(found)).toEqual(["flex input null 1.00", "flex output null 4.00"]);
    expect(found.differing.map((each) => each.class)).toEqual(["flex cached_input"]);
    const again = imported(
      [genai(genaiAsOurs, { price_variants: flex }), litellm(fields)],
      { fromDate: "2026-11-23" },
      [[own()], [{ name: "mine.yaml", text: found.yaml }]],
    );
    expect(again).toMatchObject({ proposed: [], unchanged: 1 });
  });
});

describe("a table of litellm", () => {
  const tierInputs = (fields: object) => {
    const found = imported([litellm(fields)]);
    const built = buildCatalogue([[own()], [{ name: found.name, text: found.yaml }]]);
    const tiers = built.ok ? built.catalogue.find("model-a", Date.parse(today))?.price?.version.tiers : undefined;
    return tiers?.map(
      ({ fromPromptTokens, list }) => `${fromPromptTokens}: ${formatRate(list.input)} ${formatRate(list.output)}`,
    );
  };

  it("prices long prompts by its tiered_pricing ranges", () => {
    const cached = { cache_read_input_token_cost: 1e-7 };
    const ranges = [
      { range: [0, 32000.0], input_cost_per_token: 1e-6, output_cost_per_token: 5e-6, ...cached },
      { range: [32000.0, 128000.0], input_cost_per_token: 1.8e-6, output_cost_per_token: 9e-6 },
    ];
    expect(tierInputs({ tiered_pricing: ranges })).toEqual(["0: 1.00 5.00", "32001: 1.80 9.00"]);
  });

  it("does not make cache writes free if their rate is 0", () => {
    expect(imported([litellm({ ...litellmAsOurs, cache_creation_input_token_cost: 0 })])).toMatchObject({
      proposed: [],
      unchanged: 1,
    });
  });

  it("states a model once, preferably by the name with its provider", () => {
    const found = imported([
      litellm(
        { ...litellmAsOurs, input_cost_per_token: 9e-6 },
        { "openai/model-a": { litellm_provider: "openai", mode: "chat", ...litellmAsOurs } },
      ),
    ]);
    expect(found).toMatchObject({ proposed: [], unchanged: 1, left_out: [] });
  });
});

describe("the check of the shipped prices", () => {
  const checked = (tables: PriceImportParams["tables"], file = own()) =>
    checkPrices([[file]], { tables, from: null, today });

  it("finds nothing if the tables agree with the files, or only one of them differs", () => {
    expect(checked([genai(genaiAsOurs), litellm(litellmAsOurs)])).toEqual({
      ok: true,
      compared: 1,
      faults: [],
      missing: [],
    });
    expect(checked([genai({ ...genaiAsOurs, input_mtok: 3 }), litellm(litellmAsOurs)])).toMatchObject({
      ok: true,
      faults: [],
    });
    expect(checked([genai({ ...genaiAsOurs, cache_write_mtok: 9 }), litellm(litellmAsOurs)])).toMatchObject({
      ok: true,
      compared: 1,
      faults: [],
    });
  });

  it("finds rates that both tables state differently, or that the files lack", () => {
    const flex = [{ when: { service_tier: "flex" }, prices: { input_mtok: 1, output_mtok: 4 } }];
    const theirs = genai({ ...genaiAsOurs, cache_read_mtok: 0.1 }, { price_variants: flex });
    const same = litellm({
      ...litellmAsOurs,
      cache_read_input_token_cost: 1e-7,
      input_cost_per_token_flex: 1e-6,
      output_cost_per_token_flex: 4e-6,
    });
    expect(checked([theirs, same])).toMatchObject({
      compared: 1,
      faults: [
        { model: "model-a", class: "cached_input", ours: "0.20", theirs: "0.10" },
        { model: "model-a", class: "flex input", ours: null, theirs: "1.00" },
        { model: "model-a", class: "flex output", ours: null, theirs: "4.00" },
      ],
    });
  });

  it("finds prices of long prompts that only the tables or only the files have", () => {
    const tiered = { input_mtok: { base: 2, tiers: [{ start: 200000, price: 4 }] }, output_mtok: 8 };
    const same = {
      input_cost_per_token: 2e-6,
      input_cost_per_token_above_200k_tokens: 4e-6,
      output_cost_per_token: 8e-6,
    };
    expect(checked([genai(tiered), litellm(same)])).toMatchObject({
      faults: [
        { class: "input from 200001 tokens", ours: null, theirs: "4.00" },
        { class: "output from 200001 tokens", ours: null, theirs: "8.00" },
      ],
    });
    const ours = own('        tiers: [{ from_prompt_tokens: 200001, official: { input: "4.00", output: "8.00" } }]\n');
    expect(checked([genai(genaiAsOurs), litellm(litellmAsOurs)], ours)).toMatchObject({
      faults: [{ class: "input from 200001 tokens", ours: "4.00", theirs: "none" }],
    });
  });

  it("names models that both tables have and the files lack, except for known aliases", () => {
    const others = ["model-b", "model-a-latest"].map((id) => ({
      id,
      match: { equals: id },
      context_window: 1000,
      prices: { input_mtok: 1, output_mtok: 2 },
    }));
    const fields = {
      litellm_provider: "openai",
      mode: "chat",
      input_cost_per_token: 1e-6,
      output_cost_per_token: 2e-6,
    };
    expect(
      checked([
        genai(genaiAsOurs, {}, others),
        litellm(litellmAsOurs, { "model-b": fields, "model-a-latest": fields }),
      ]),
    ).toMatchObject({ missing: ["model-b"] });
  });
});
