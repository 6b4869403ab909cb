import { readdirSync, readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { rateOf, usdOfThousand } from "../../../src/catalogue/import/table.ts";
import { importPrices } from "../../../src/catalogue/import/import.ts";
import { formatRate, type PicoUsdPerToken } from "../../../src/core/money.ts";
import type { PriceImport, PriceImportParams } from "../../../src/ports/price-import.ts";
import { buildOnce } from "../../support/built-catalogues.ts";
import { expectCatalogue, layer, oneModel, pricing } from "../../support/example-catalogue.ts";

const shipped = readdirSync(pricing)
  .filter((name) => name.endsWith(".yaml"))
  .map((name) => ({ name, text: readFileSync(new URL(name, pricing), "utf8") }));
const paramsOf = (
  from: PriceImportParams["from"],
  text: string,
  more: Partial<PriceImportParams> = {},
): PriceImportParams => ({
  from,
  tables: [{ file: "table.json", text }],
  fromDate: "2026-11-21",
  today: "2026-11-20",
  providers: null,
  models: null,
  group: "official",
  withNew: true,
  ...more,
});

function imported(params: PriceImportParams, layers = [shipped]): PriceImport {
  const result = importPrices(layers, params, buildOnce);
  if (!result.ok) throw new Error(result.problems.join("\n"));
  return result.imported;
}

/** Builds a catalogue of the shipped files and the proposal. */
function withShipped(proposal: PriceImport) {
  return expectCatalogue(buildCatalogue([shipped, [{ name: proposal.name, text: proposal.yaml }]]));
}

function inputAt(catalogue: ReturnType<typeof withShipped>, model: string, day: string) {
  const tiers = catalogue.find(model, Date.parse(`${day}T00:00:00Z`))?.price?.version.tiers;
  return tiers?.map(({ fromPromptTokens, list }) => `${fromPromptTokens}: ${formatRate(list.input)}`);
}

const anthropic = `[{"id":"anthropic","name":"Anthropic","models":[
  {"id":"claude-opus-5","match":{"starts_with":"claude-opus-5"},"context_window":1000000,"prices":{"input_mtok":5,"cache_write_mtok":6.25,"cache_read_mtok":0.5,"output_mtok":25}},
  {"id":"claude-sonnet-4-6","match":{"or":[{"starts_with":"claude-sonnet-4-6"},{"starts_with":"claude-sonnet-4.6"}]},"context_window":1000000,
   "prices":[{"prices":{"input_mtok":3,"cache_write_mtok":3.75,"cache_read_mtok":0.3,"output_mtok":15}},
             {"constraint":{"start_date":"2027-01-01"},"prices":{"input_mtok":{"base":2.4,"tiers":[{"start":200000,"price":4.8}]},"cache_write_mtok":3,"cache_write_1h_mtok":4.8,"cache_read_mtok":0.24,"output_mtok":{"base":12.0,"tiers":[{"start":200000,"price":24}]}}}]},
  {"id":"claude-haiku-4-5","match":{"starts_with":"claude-haiku-4-5"},"prices":{"input_mtok":0.9,"output_mtok":4.5}},
  {"id":"claude-nova-1","match":{"or":[{"equals":"claude-nova-1"},{"equals":"claude-nova"},{"equals":"claude-opus-5"}]},"context_window":500000,"prices":{"input_mtok":1.25,"output_mtok":6}},
  {"id":"claude-night","match":{"equals":"claude-night"},"prices":[{"constraint":{"start_time":"00:30:00Z","end_time":"16:30:00Z"},"prices":{"input_mtok":1,"output_mtok":2}}]},
  {"id":"claude-fine","match":{"equals":"claude-fine"},"context_window":1000,"prices":{"input_mtok":0.0000001,"output_mtok":2}},
  {"id":"claude-free","match":{"equals":"claude-free"},"context_window":1000,"prices":{"input_mtok":0,"output_mtok":0}},
  {"id":"claude-embed","match":{"equals":"claude-embed"},"prices":{"input_mtok":0.1}},
  {"id":"claude-speech","match":{"equals":"claude-speech"},"context_window":1000,"prices":{"input_kchars":0.1,"output_mtok":1,"input_mtok":1}},
  {"id":"claude-flat","match":{"equals":"claude-flat"},"context_window":1000,"prices":{"requests_kcount":12.5}}
]},{"id":"elsewhere","models":[{"id":"other","match":{"equals":"other"},"context_window":10,"prices":{"input_mtok":1,"output_mtok":1}}]}]`;

describe("a number of a table", () => {
  it.each([
    ["2.5e-06", 0, "2.50"],
    ["1.5E-7", 0, "0.15"],
    ["0.0000025", 0, "2.50"],
    ["1e-05", 0, "10.00"],
    ["7.5e-08", 0, "0.075"],
    ["0", 0, "0.00"],
    ["2.5", 6, "2.50"],
    ["75", 6, "75.00"],
    ["0.01875", 6, "0.01875"],
    ["1.5000000000000002e-06", 0, undefined],
    ["1e-13", 0, undefined],
    ["0.0000001", 6, undefined],
    ["-1", 6, undefined],
    ["free", 6, undefined],
    ["1e999", 6, undefined],
  ] as const)("%s for 10^%i tokens is %s", (text, unit, expected) => {
    expect(rateOf(text, unit)).toBe(expected);
  });

  it("is read exactly in any notation", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 10n }), fc.integer({ min: 0, max: 12 }), (rate, places) => {
        const expected = formatRate(rate as PicoUsdPerToken);
        const digits = rate.toString().padStart(places + 1, "0");
        const mantissa = places === 0 ? digits : `${digits.slice(0, -places)}.${digits.slice(-places)}`;
        expect(rateOf(`${mantissa}e${places - 12}`, 0)).toBe(expected);
        expect(rateOf(`${mantissa}e${places - 6}`, 6)).toBe(expected);
      }),
    );
  });

  it("for a thousand requests is divided by 1,000", () => {
    expect(usdOfThousand("12.5")).toBe("0.0125");
    expect(usdOfThousand("1e-10")).toBeUndefined();
  });
});

describe("an import from genai-prices", () => {
  const proposal = imported(paramsOf("genai-prices", anthropic));
  const entry = (model: string) => proposal.proposed.find((each) => each.model === model);

  it("is a valid price file next to the shipped files", () => {
    expect(() => withShipped(proposal)).not.toThrow();
    expect(proposal.name).toBe("imported-2026-11-21.yaml");
  });

  it("proposes a changed price from the given day, and keeps the earlier price and traits", () => {
    const catalogue = withShipped(proposal);
    expect(entry("claude-haiku-4-5")).toMatchObject({
      kind: "changed",
      entries: [
        {
          from: "2026-11-21",
          changes: [
            { class: "input", before: "1.00", after: "0.90" },
            { class: "output", before: "5.00", after: "4.50" },
          ],
        },
      ],
    });
    expect(inputAt(catalogue, "claude-haiku-4-5", "2026-11-20")).toEqual(["0: 1.00"]);
    expect(inputAt(catalogue, "claude-haiku-4-5", "2026-11-21")).toEqual(["0: 0.90"]);
    expect(proposal.yaml).toContain(`  claude-haiku-4-5:
    change:
      from: 2026-11-21
      source: "price list of genai-prices (table.json), read 2026-11-20"
      official: { input: "0.90", output: "4.50" }
`);
    const before = expectCatalogue(buildCatalogue([shipped]));
    const traits = (from: typeof catalogue) => ({
      ...from.find("claude-haiku-4-5", Date.parse("2026-11-20")),
      price: null,
    });
    expect(traits(catalogue)).toEqual(traits(before));
  });

  it("proposes an announced price with its tiers from its day, and keeps the gateway's own rates", () => {
    const catalogue = withShipped(proposal);
    expect(entry("claude-sonnet-4-6")?.entries.map(({ from }) => from)).toEqual(["2027-01-01"]);
    expect(inputAt(catalogue, "claude-sonnet-4-6", "2026-12-31")).toEqual(["0: 3.00"]);
    expect(inputAt(catalogue, "claude-sonnet-4-6", "2027-01-01")).toEqual(["0: 2.40", "200001: 4.80"]);
    const charged = catalogue.find("claude-sonnet-4-6", Date.parse("2027-01-02"))?.price?.version.tiers[0].charged;
    expect(charged && formatRate(charged.input)).toBe("2.25");
    expect(proposal.yaml).toContain("# the gateway's own rates stay in force: check that they still apply");
  });

  it("proposes new models with unused aliases, and prices per request", () => {
    const catalogue = withShipped(proposal);
    expect(entry("claude-nova-1")).toMatchObject({ kind: "new", provider: "anthropic" });
    expect(catalogue.find("claude-nova", Date.parse("2026-11-21"))).toMatchObject({
      id: "claude-nova-1",
      contextTokens: 500_000,
      group: "official",
      tokenizerIsPublic: false,
    });
    expect(catalogue.find("claude-nova-1", Date.parse("2026-11-20"))?.price).toBeNull();
    expect(catalogue.find("claude-flat", Date.parse("2026-11-21"))?.price?.version.perRequest).toEqual({
      charged: 12_500_000_000n,
      list: 12_500_000_000n,
    });
  });

  it("proposes one-hour cache writes and search fees, and keeps the rates of service tiers", () => {
    const table = `[{"id":"openai","models":[{"id":"gpt-5","match":{"equals":"gpt-5"},"prices":{"input_mtok":1.5,"cache_write_1h_mtok":3,"output_mtok":10,"web_searches_kcount":12,"storage_searches_kcount":2.5}}]}]`;
    const proposed = imported(paramsOf("genai-prices", table, { fromDate: "2026-11-23" }));
    expect(proposed.left_out).toEqual([]);
    expect(proposed.proposed[0]?.entries[0]?.changes).toEqual([
      { class: "input", before: "1.25", after: "1.50" },
      { class: "cache_write_1h", before: "1.25", after: "3.00" },
      { class: "web_search_call", before: "0.01", after: "0.012" },
    ]);
    const model = withShipped(proposed).find("gpt-5", Date.parse("2026-11-23"));
    expect(model?.price?.version).toMatchObject({
      fees: {
        web_search_call: { list: 12_000_000_000n, inputTokens: 16_000 },
        file_search_call: { list: 2_500_000_000n },
      },
      serviceTiers: { priority: [{ list: { input: 2_500_000n } }], flex: [{}], batch: [{}] },
    });
    const again = imported(paramsOf("genai-prices", table, { fromDate: "2026-11-24" }), [
      shipped,
      [{ name: proposed.name, text: proposed.yaml }],
    ]);
    expect(again.proposed).toEqual([]);
  });

  it("reports what it leaves out and why, and does not propose unchanged prices", () => {
    expect(proposal.left_out.map(({ model, why }) => `${model}: ${why}`)).toEqual([
      "claude-night: its price depends on the time of day",
      "claude-fine: input_mtok 0.0000001 cannot be represented exactly",
      "claude-free: a price of 0 may mean that the price is unknown; if the model is free, state its price yourself",
      "claude-embed: no price of output tokens: not a chat model",
      "claude-speech: its price has input_kchars, for which Farebox has no token class",
    ]);
    expect(proposal.unchanged).toBe(1);
    expect(proposal.yaml).not.toContain("claude-opus-5:");
    expect(proposal.yaml).not.toContain("other");
  });

  it("proposes nothing when it is repeated", () => {
    const again = imported(paramsOf("genai-prices", anthropic, { fromDate: "2026-11-22" }), [
      shipped,
      [{ name: proposal.name, text: proposal.yaml }],
    ]);
    expect(again).toMatchObject({ proposed: [], yaml: "" });
  });

  it("can be limited to some models, providers or known models", () => {
    expect(
      imported(paramsOf("genai-prices", anthropic, { models: ["claude-h*"] })).proposed.map(({ model }) => model),
    ).toEqual(["claude-haiku-4-5"]);
    expect(imported(paramsOf("genai-prices", anthropic, { withNew: false })).proposed.map(({ kind }) => kind)).toEqual([
      "changed",
      "changed",
    ]);
    expect(
      imported(paramsOf("genai-prices", anthropic, { providers: ["elsewhere"] })).proposed.map(({ model }) => model),
    ).toEqual(["other"]);
  });

  it("also reads a provider's YAML", () => {
    const yaml = `# yaml-language-server: $schema=.schema.json
name: Google
id: google
models:
  - id: gemini-2.5-pro
    match:
      starts_with: gemini-2.5-pro
    prices_checked: 2026-10-01
    prices:
      input_mtok:
        base: 1.10
        tiers:
          - start: 200000
            price: 2.20
      cache_read_mtok: 0.11
      output_mtok: 10
`;
    const catalogue = withShipped(imported(paramsOf("genai-prices", yaml)));
    expect(inputAt(catalogue, "gemini-2.5-pro", "2026-11-21")).toEqual(["0: 1.10", "200001: 2.20"]);
  });

  it("leaves out a share that is not exact, and a day without a price", () => {
    const table = (rate: string) =>
      `[{"id":"openai","models":[{"id":"gpt-4o","match":{"equals":"gpt-4o"},"prices":{"input_mtok":${rate},"output_mtok":10}}]}]`;
    expect(imported(paramsOf("genai-prices", table("2.000001"))).left_out).toEqual([
      {
        model: "gpt-4o",
        why: '0.50 of 2.000001 (group "large-general") cannot be represented exactly; state the rate under gateway',
      },
    ]);
    expect(imported(paramsOf("genai-prices", table("2.4"), { fromDate: "2020-01-01" })).left_out).toEqual([
      {
        model: "gpt-4o",
        why: "the price files state no price on 2020-01-01; give a later --from-date, or state it yourself",
      },
    ]);
  });
});

describe("an import from litellm", () => {
  const table = `{
    "sample_spec": { "input_cost_per_token": 0.0, "litellm_provider": "one of the providers", "mode": "one of: chat, embedding" },
    "gpt-4o": { "input_cost_per_token": 2.4e-06, "input_cost_per_token_priority": 4.25e-06, "input_cost_per_token_batches": 1.25e-06, "cache_read_input_token_cost": 1.2e-06, "output_cost_per_token": 1e-05, "litellm_provider": "openai", "max_input_tokens": 128000, "max_output_tokens": 16384, "max_tokens": 16384, "mode": "chat" },
    "gpt-4.1": { "input_cost_per_token": 2e-06, "cache_read_input_token_cost": 5e-07, "output_cost_per_token": 8e-06, "litellm_provider": "openai", "mode": "chat" },
    "gpt-noisy": { "input_cost_per_token": 1.5000000000000002e-06, "output_cost_per_token": 8e-06, "litellm_provider": "openai", "max_input_tokens": 1000, "max_output_tokens": 100, "mode": "chat" },
    "text-embedding-9": { "input_cost_per_token": 2e-08, "output_cost_per_token": 0.0, "litellm_provider": "openai", "mode": "embedding" },
    "gemini/gemini-9-pro": { "input_cost_per_token": 1.25e-06, "input_cost_per_token_above_200k_tokens": 2.5e-06, "output_cost_per_token": 1e-05, "output_cost_per_token_above_200k_tokens": 1.5e-05, "cache_read_input_token_cost": 3.125e-07, "cache_creation_input_token_cost_above_1hr": 2.25e-06, "input_cost_per_audio_token": 7e-07, "output_cost_per_reasoning_token": 1.1e-05, "litellm_provider": "gemini", "max_input_tokens": 1048576, "max_output_tokens": 65535, "mode": "chat", "supports_vision": true },
    "bedrock/other": { "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06, "litellm_provider": "bedrock", "max_tokens": 10, "mode": "chat" }
  }`;
  const proposal = imported(paramsOf("litellm", table));

  it("reads rates exactly, and is valid next to the shipped files", () => {
    const catalogue = withShipped(proposal);
    expect(proposal.proposed.map(({ model, kind, provider }) => `${kind} ${model} of ${provider}`)).toEqual([
      "changed gpt-4o of openai",
      "new gemini-9-pro of google",
    ]);
    expect(inputAt(catalogue, "gpt-4o", "2026-11-21")).toEqual(["0: 2.40"]);
    const model = catalogue.find("gemini-9-pro", Date.parse("2026-11-21"));
    expect(model).toMatchObject({ contextTokens: 1_048_576, outputTokensMax: 65_535 });
    const [base, above] = model?.price?.version.tiers ?? [];
    expect(base && Object.entries(base.list).map(([name, rate]) => `${name} ${formatRate(rate)}`)).toEqual([
      "input 1.25",
      "cached_input 0.3125",
      "cache_write 1.25",
      "cache_write_1h 2.25",
      "audio_input 0.70",
      "image_input 1.25",
      "output 10.00",
      "reasoning 11.00",
      "audio_output 10.00",
      "image_output 10.00",
    ]);
    expect(above).toMatchObject({
      fromPromptTokens: 200_001,
      list: { input: 2_500_000n, output: 15_000_000n, cached_input: 312_500n },
    });
  });

  it("reports what it leaves out", () => {
    expect(proposal).toMatchObject({
      unchanged: 1,
      left_out: [
        { model: "gpt-noisy", why: "input_cost_per_token 1.5000000000000002e-06 cannot be represented exactly" },
        { model: "1 of mode embedding", why: "only models that answer with text are imported" },
      ],
    });
  });
});

describe("an import", () => {
  const problem = (from: PriceImportParams["from"], text: string, more: Partial<PriceImportParams> = {}) => {
    const result = importPrices([shipped], paramsOf(from, text, more));
    return result.ok ? [] : [...result.problems];
  };

  it.each<[string, string[], RegExp]>([
    ["text that is not JSON", problem("litellm", '{"a": '), /^table\.json is neither JSON nor YAML: /],
    ["a table of the other format", problem("litellm", anthropic), /^table\.json is not litellm's table: /],
    ["an unrelated table", problem("genai-prices", '{"gpt-4o": 1}'), /^table\.json is not a genai-prices table: /],
    [
      "an unknown provider",
      problem("genai-prices", anthropic, { providers: ["antropic"] }),
      /no provider "antropic"; did you mean "anthropic"\?$/,
    ],
    [
      "an unknown group",
      problem("genai-prices", anthropic, { group: "offical" }),
      /there is no group "offical"; give --group: did you mean "official"\?$/,
    ],
  ])("refuses %s in one sentence", (_, problems, expected) => {
    expect(problems).toEqual([expect.stringMatching(expected)]);
  });

  it("changes a model of the user's files in a file of its own, however that model is written", () => {
    const own = layer({
      "mine.yaml": oneModel
        .replace("half:", "halb:")
        .replace("group: half", "group: halb")
        .replace(
          / +prices:[^]*/,
          '    prices: [{ from: 2026-01-01, source: "a list", official: { input: "2.00", output: "10.00" } }]\n',
        ),
    });
    const table =
      '[{"id":"example","models":[{"id":"big","match":{"equals":"big"},"prices":{"input_mtok":1.5,"output_mtok":10}}]}]';
    const proposal = imported(paramsOf("genai-prices", table), [shipped, own]);
    expect(proposal.proposed).toMatchObject([{ model: "big", kind: "changed" }]);
    expect(proposal.yaml).toContain("  big:\n    change:\n      from: 2026-11-21\n");
    const built = expectCatalogue(buildCatalogue([shipped, [...own, { name: proposal.name, text: proposal.yaml }]]));
    expect(inputAt(built, "big", "2026-11-20")).toEqual(["0: 2.00"]);
    expect(inputAt(built, "big", "2026-11-21")).toEqual(["0: 1.50"]);
  });
});
