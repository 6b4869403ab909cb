import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { PriceShown } from "../../../src/reporting/price-explained.ts";
import { harness, type Harness } from "../../support/cli-harness.ts";

const mine = `groups:
  half: { fraction: "0.5" }
provider: mine
models:
  big:
    aliases: [large]
    group: half
    tokenizer: o200k_base
    context_tokens: 1000000
    max_output_tokens: 4000
    image_part_tokens: 1500
    tokens_per_second: 120
    prices:
      - from: 2026-01-01
        until: 2026-03-01
        source: "the old list"
        official: { input: "2.00", output: "10.00" }
      - from: 2026-03-01
        source: "the new list"
        official: { input: "4.00", cached_input: "0.40", cache_write: "5.00", audio_input: "9.00", output: "20.00", image_output: "30.00" }
        gateway: { input: "1.50", cached_input: "0.30" }
        minimum: { tokens: 100, usd: "0.005" }
        tier_mode: marginal
        tiers:
          - { from_prompt_tokens: 200001, official: { input: "8.00", output: "40.00" } }
  tiered:
    served_as: [big, other]
    group: half
    context_tokens: 1000
    max_output_tokens: 1000
    obeys_max_tool_calls: true
    max_output_field: { chat: max_tokens, responses: max_output_tokens }
    prices:
      - from: 2026-01-01
        source: "a list"
        official: { input: "2.00", output: "10.00" }
        service_tiers:
          priority: { official: { input: "4.00", output: "20.00" }, tiers: [{ from_prompt_tokens: 101, official: { input: "8.00", output: "40.00" } }] }
          flex: { official: { input: "1.00", output: "5.00" }, gateway: { input: "0.90" } }
        fees: { web_search_call: { usd: "0.01", input_tokens: 16000 }, file_search_call: { usd: "0.0025", gateway: "0.002", input_tokens: 0 } }
        factors: { speed: { fast: { input: "2", cached_input: "1", output: "2" } }, inference_geo: { us: "1.1" } }
  pictures:
    group: half
    context_tokens: 1000
    max_output_tokens: 1000
    prices:
      - { from: 2026-01-01, until: 2026-06-01, source: "a list", per_request: { official: "0.25" } }
`;

/** Models with other units and classes; their lines come after all others. */
const others = `  speech:
    unit: second
    context_tokens: 5000
    max_output_tokens: 1
    prices:
      - { from: 2026-01-01, source: "a list", official: { input: "100", output: "0" }, gateway: { input: "100", output: "0" }, minimum: { usd: "0.01" } }
  drawing:
    images_only: true
    group: half
    context_tokens: 1000
    max_output_tokens: 1000
    prices: [{ from: 2026-01-01, source: "a list", official: { input: "2.00", output: "10.00", image_output: "30.00" } }]
`;

const lineOf = (name: string, tokens: number) => ({ class: name, tokens });
const charged = (rate: string | null, cost: string) => ({ usd_per_million: rate, cost_usd: cost });
const official = (rate: string | null, cost: string) => ({ official_usd_per_million: rate, list_cost_usd: cost });

let farebox: Harness;
beforeEach(() => {
  farebox = harness();
  writeFileSync(join(farebox.folder, "mine.yaml"), mine + others);
  farebox.env = { ...farebox.env, FAREBOX_PRICING: farebox.folder };
});
afterEach(() => farebox[Symbol.dispose]());

const show = (...argv: string[]) => farebox.json<PriceShown>("prices", "show", ...argv);

function rates(shown: PriceShown, tier = 0) {
  return (shown.price?.tiers[tier]?.rates ?? []).map((rate) => [
    rate.class,
    rate.official_of,
    rate.official_usd_per_million,
    rate.gateway_usd_per_million,
    rate.rule,
    rate.fraction ?? rate.as,
  ]);
}

describe("prices show", () => {
  it("shows the origin of each class's rate", async () => {
    const shown = await show("big");
    expect(rates(shown)).toEqual([
      ["input", "input", "4.00", "1.50", "stated", null],
      ["cached_input", "cached_input", "0.40", "0.30", "stated", null],
      ["cache_write", "cache_write", "5.00", "2.50", "share", "0.5"],
      ["cache_write_1h", "cache_write", "5.00", "2.50", "as", "cache_write"],
      ["audio_input", "audio_input", "9.00", "4.50", "share", "0.5"],
      ["image_input", "input", "4.00", "1.50", "as", "input"],
      ["output", "output", "20.00", "10.00", "share", "0.5"],
      ["reasoning", "output", "20.00", "10.00", "as", "output"],
      ["audio_output", "output", "20.00", "10.00", "as", "output"],
      ["image_output", "image_output", "30.00", "15.00", "share", "0.5"],
    ]);
    expect(rates(shown, 1)[0]).toEqual(["input", "input", "8.00", "4.00", "share", "0.5"]);
    expect(rates(shown, 1)[1]).toEqual(["cached_input", "input", "8.00", "4.00", "as", "input"]);
  });

  it("shows the file and line of each statement, and the bounds of a request", async () => {
    const file = join(farebox.folder, "mine.yaml");
    expect(await show("big")).toMatchObject({
      asked: "big",
      model: "big",
      found_by: "id",
      aliases: ["large"],
      provider: "mine",
      file,
      line: 5,
      group: { name: "half", fraction: "0.5", file, line: 2 },
      bounds: {
        context_tokens: 1_000_000,
        max_output_tokens: 4000,
        image_part_tokens: 1500,
        audio_part_tokens: null,
        tokenizer: "o200k_base",
        error_factor: 1,
        tokens_per_second: 120,
      },
      at: "2026-11-20T12:00:00.000Z",
      entries: [
        { from: "2026-01-01", until: "2026-03-01", line: 14, in_force: false },
        { from: "2026-03-01", until: null, line: 18, in_force: true },
      ],
      price: {
        from: "2026-03-01",
        until: null,
        source: "the new list",
        line: 18,
        tier_mode: "marginal",
        per_request: null,
        minimum: { tokens: 100, usd: "0.005" },
      },
    });
    expect(await show("model-a")).toMatchObject({ file: "prices/test.yaml", group: null });
  });

  it.each([
    ["2025-12-31", null],
    ["2026-01-01", "the old list"],
    ["2026-02-28T23:59:59Z", "the old list"],
    ["2026-03-01", "the new list"],
    ["1h", "the new list"],
  ])("shows the price in force at %s, by UTC days", async (at, source) => {
    expect((await show("big", "--at", at)).price?.source ?? null).toBe(source);
  });

  it("shows a price per request, and reports if no price is in force", async () => {
    const file = join(farebox.folder, "mine.yaml");
    expect((await show("pictures", "--at", "2026-05-31")).price?.per_request).toEqual({
      official_usd: "0.25",
      gateway_usd: "0.125",
      rule: "share",
      fraction: "0.5",
      as: null,
      official_at: `${file}:47`,
      gateway_at: `${file}:2`,
    });
    expect(await show("pictures")).toMatchObject({ price: null, entries: [{ in_force: false }] });
    expect((await farebox.run("prices", "show", "pictures")).stdout).toContain("in force\tnone at 2026-11-20");
  });

  it("shows service tiers, fees, and the models that may answer", async () => {
    const shown = await show("tiered");
    expect(shown).toMatchObject({ served_as: ["big", "other"], bounds: { obeys_max_tool_calls: true } });
    expect(shown.bounds.max_output_field).toEqual({ chat: "max_tokens", responses: "max_output_tokens" });
    expect((await farebox.run("prices", "show", "tiered")).stdout).toContain(
      "output field\tchat max_tokens, responses max_output_tokens",
    );
    const tierRates = (shown.price?.service_tiers ?? []).map(({ service_tier, tiers }) => [
      service_tier,
      ...tiers.map(({ from_prompt_tokens: from, rates: [input] }) => [
        from,
        input?.gateway_usd_per_million,
        input?.rule,
      ]),
    ]);
    expect(tierRates).toEqual([
      ["priority", [0, "2.00", "share"], [101, "4.00", "share"]],
      ["flex", [0, "0.90", "stated"]],
    ]);
    const file = join(farebox.folder, "mine.yaml");
    const at = `${file}:41`;
    const fast = "input 2, cached_input 1, output 2";
    expect(shown.price?.factors).toEqual([
      { field: "speed", value: "fast", factors: fast, at },
      { field: "inference_geo", value: "us", factors: "1.1", at },
    ]);
    expect((await farebox.run("prices", "show", "tiered")).stdout).toContain(
      `factor of the rates\tfactor\tat\nspeed fast\t${fast}\t${at}\ninference_geo us\t1.1\t${at}\n`,
    );
    expect((await farebox.run("prices", "list")).stdout).toMatch(/^tiered\t.*priority, flex, fast, us, fees/m);
    expect(shown.price?.fees).toEqual([
      {
        tool: "web_search_call",
        official_usd: "0.01",
        gateway_usd: "0.005",
        input_tokens: 16000,
        rule: "share",
        fraction: "0.5",
        as: null,
        official_at: `${file}:40`,
        gateway_at: `${file}:2`,
      },
      {
        tool: "file_search_call",
        official_usd: "0.0025",
        gateway_usd: "0.002",
        input_tokens: 0,
        rule: "stated",
        fraction: null,
        as: null,
        official_at: `${file}:40`,
        gateway_at: `${file}:40`,
      },
    ]);
    const { stdout } = await farebox.run("prices", "show", "tiered");
    expect(stdout).toContain("served as\tbig, other\n");
    expect(stdout).toContain("service tier priority, all tokens of requests with prompts from 101 tokens\n");
    expect(stdout).toContain(`web_search_call\t0.01\t0.005\t0.5 of 0.01\t${file}:2\t${file}:40\t16000\n`);
  });

  it("prints the model, its rates and its other prices as text", async () => {
    const { stdout } = await farebox.run("prices", "show", "large-2026-05-05");
    const file = join(farebox.folder, "mine.yaml");
    expect(stdout).toContain("model\tbig (asked for as large-2026-05-05)\n");
    expect(stdout).toContain(`input\t4.00\t1.50\tstated by the gateway\t${file}:21\t${file}:20\n`);
    expect(stdout).toContain(`cache_write\t5.00\t2.50\t0.5 of 5.00\t${file}:2\t${file}:20\n`);
    expect(stdout).toContain(`image_input\t(input) 4.00\t1.50\tcharged as input\t-\t${file}:20\n`);
    expect(stdout).toContain(`context\t1000000 tokens, at most 4000 of output (${file}:9, ${file}:10)\n`);
    expect(stdout).toContain("the part of the prompt from 200001 tokens\n");
    expect(stdout).toMatch(/^minimum\t100 tokens, USD 0\.005 \(.*mine\.yaml:22\)$/m);
    expect(stdout).toMatch(/^another price: from 2026-01-01 until 2026-03-01 \(exclusive\) \(.*mine\.yaml:14\)$/m);
  });

  it("names the file and line that decide each figure of a changed model", async () => {
    const changes = `gateway: { cached_input: official, minimum: { usd: "0.001" } }
models:
  big:
    change:
      from: 2026-04-01
      source: "our contract"
      official: { output: "21.00" }
      max_output_tokens: 2000
  "tier*": { change: { group: half, from: 2026-04-01, source: "our contract", fees: { file_search_call: { gateway: "0.001" } } } }
`;
    writeFileSync(join(farebox.folder, "changes.yaml"), changes);
    const at = (line: number) => `${join(farebox.folder, "changes.yaml")}:${line}`;
    const own = (line: number) => `${join(farebox.folder, "mine.yaml")}:${line}`;
    const big = await show("big");
    expect(big.price).toMatchObject({
      from: "2026-04-01",
      source: "our contract; otherwise the new list",
      minimum: { tokens: 100, usd: "0.005", at: own(22) },
    });
    expect(big.bounds_at).toMatchObject({ context_tokens: own(9), max_output_tokens: at(8) });
    const places = Object.fromEntries(
      (big.price?.tiers[0]?.rates ?? []).map((rate) => [rate.class, [rate.official_at, rate.gateway_at]]),
    );
    expect(places).toMatchObject({
      input: [own(20), own(21)],
      cached_input: [own(20), own(21)],
      output: [at(7), own(2)],
      reasoning: [at(7), null],
    });
    const tiered = await show("tiered");
    expect(tiered.price?.minimum).toEqual({ tokens: 0, usd: "0.001", at: at(1) });
    expect(tiered.price?.fees[1]).toMatchObject({ gateway_usd: "0.001", official_at: own(40), gateway_at: at(9) });
    expect((await farebox.run("prices", "show", "big", "--at", "2026-03-31")).stdout).toContain("the new list\n");
  });

  it("computes an example to the last digit, and one of a single token if there is a minimum", async () => {
    const { examples } = await show("big");
    const item = { from_prompt_tokens: 0 };
    expect(examples).toEqual([
      {
        request: "100000 prompt tokens (80000 read from the cache, 10000 written to it), 2000 output tokens",
        items: [
          // Cached tokens are first, because the tiers are marginal.
          { ...item, ...lineOf("cached_input", 80_000), ...charged("0.30", "0.024"), ...official("0.40", "0.032") },
          { ...item, ...lineOf("cache_write", 10_000), ...charged("2.50", "0.025"), ...official("5.00", "0.05") },
          { ...item, ...lineOf("input", 10_000), ...charged("1.50", "0.015"), ...official("4.00", "0.04") },
          { ...item, ...lineOf("output", 2000), ...charged("10.00", "0.02"), ...official("20.00", "0.04") },
        ],
        cost_usd: "0.084",
        list_cost_usd: "0.162",
      },
      {
        request: "one token",
        items: [
          { ...item, ...lineOf("input", 1), ...charged("1.50", "0.0000015"), ...official("4.00", "0.000004") },
          { ...item, ...lineOf("minimum", 99), ...charged("10.00", "0.00099"), ...official(null, "0.00") },
          { ...item, ...lineOf("minimum", 0), ...charged(null, "0.0040085"), ...official(null, "0.00") },
        ],
        cost_usd: "0.005",
        list_cost_usd: "0.000004",
      },
    ]);
    const { stdout } = await farebox.run("prices", "show", "big");
    expect(stdout).toContain(
      [
        "example: one token",
        "item\ttokens\tgateway, USD per 1M\tcost\tofficial, USD per 1M\tlist cost",
        "input\t1\t1.50\t0.0000015\t4.00\t0.000004",
        "minimum\t99\t10.00\t0.00099\t-\t0.00",
        "minimum\t-\t-\t0.0040085\t-\t0.00",
        "total\t-\t-\t0.005\t-\t0.000004",
        "",
      ].join("\n"),
    );
  });

  it("has an example within the model's limits, in its unit, and of one request at a flat price", async () => {
    const requests = async (...argv: string[]) =>
      (await show(...argv)).examples.map(({ request, items }) => [request, items.map((item) => item.class).join(" ")]);
    expect(await requests("tiered")).toEqual([
      [
        "1000 prompt tokens (800 read from the cache, 100 written to it), 1000 output tokens",
        "input cached_input cache_write output",
      ],
    ]);
    expect(await requests("pictures", "--at", "2026-05-31")).toEqual([["one request", "request"]]);
    expect(await requests("pictures")).toEqual([]);
    expect(await requests("speech")).toEqual([
      ["5000 seconds", "audio_input"],
      ["one second", "audio_input minimum"],
    ]);
    expect(await requests("drawing")).toEqual([
      [
        "1000 prompt tokens (800 read from the cache, 100 written to it), 1000 output tokens",
        "input cached_input cache_write image_output",
      ],
    ]);
    expect((await farebox.run("prices", "show", "speech")).stdout).toContain("item\tseconds\t");
  });

  it("finds a model by an alias, a revision or another spelling", async () => {
    expect(await show("large")).toMatchObject({ model: "big", found_by: "alias" });
    expect(await show("big-2026-05-05")).toMatchObject({ model: "big", found_by: "revision" });
    expect(await show("mine/BIG-2026-05-05")).toMatchObject({ model: "big", found_by: "spelling" });
  });

  it("ends with 1 for an unknown model, and suggests similar names", async () => {
    expect(await farebox.run("prices", "show", "bigg")).toEqual({
      code: 1,
      stdout: "",
      stderr: 'farebox: no price file names the model "bigg"; did you mean big? farebox prices list shows all models\n',
    });
    expect((await farebox.run("prices", "show", "zzzzzzzzzz")).stderr).toBe(
      'farebox: no price file names the model "zzzzzzzzzz"; farebox prices list shows all models\n',
    );
  });

  it("shows the ceiling price of unknown models, with a note", async () => {
    writeFileSync(
      join(farebox.folder, "default.yaml"),
      `default:
  context_tokens: 1000
  max_output_tokens: 100
  prices: [{ from: 2026-01-01, source: "ours", official: { input: "20", output: "90" }, gateway: { input: "20", output: "90" } }]
`,
    );
    const ran = await farebox.run("prices", "show", "bigg");
    expect(ran).toMatchObject({
      code: 0,
      stderr: "no price file names bigg, so the ceiling price of unknown models applies; did you mean big?\n",
    });
    expect(await show("bigg")).toMatchObject({ model: "default", found_by: "default", price: { source: "ours" } });
  });

  it("refuses an invalid time or price file", async () => {
    expect(await farebox.run("prices", "show", "big", "--at", "someday")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--at must be a span"),
    });
    writeFileSync(join(farebox.folder, "mine.yaml"), mine.replace('"2.00"', "2.00"));
    expect(await farebox.run("prices", "show", "big")).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining("mine.yaml:17:28: write it in quotes"),
    });
  });
});
