import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { shippedPrices } from "../../../src/server/package.ts";
import { runCli } from "../../../src/cli/program.ts";
import { processSurroundings } from "../../../src/cli/surroundings.ts";
import { readTextFile } from "../../../src/config/environment.ts";
import { formatUsd, type PicoUsd } from "../../../src/core/money.ts";
import { estimateSchema, type EstimateJson } from "../../../src/reporting/shapes/commands.ts";
import { buildOnce } from "../../support/built-catalogues.ts";
import { startProxy } from "../../support/running-proxy.ts";
import { harness } from "../../support/cli-harness.ts";

const hello = { messages: [{ role: "user", content: "hello" }] };

/** Runs an estimate with the shipped prices. */
async function estimateOf(request: object | null, ...argv: string[]): Promise<EstimateJson> {
  let stdout = "";
  let stderr = "";
  const io = {
    stdout: { write: (text: string) => (stdout += text) },
    stderr: { write: (text: string) => (stderr += text) },
    isTTY: false,
    env: {},
  };
  const stdin = Buffer.from(JSON.stringify(request));
  const file = request === null ? [] : ["--file", "-"];
  const surroundings = {
    ...processSurroundings,
    io,
    env: {},
    readFile: readTextFile,
    prices: { shipped: shippedPrices, build: buildOnce },
    readStdin: async () => stdin,
  };
  const code = await runCli(["estimate", ...file, ...argv, "--json"], surroundings);
  if (code !== 0) throw new Error(stderr);
  return estimateSchema.parse(JSON.parse(stdout));
}

const known = ({ items }: EstimateJson) => Object.fromEntries(items.map((item) => [item.class, item.known]));

describe("the JSON of an estimate", () => {
  it("names other models of the request and unknown fields in notes", async () => {
    const plain = await estimateOf({ ...hello, model: "gpt-4o", max_tokens: 10 });
    const routed = await estimateOf({ ...hello, model: "gpt-4o", max_tokens: 10, models: ["gpt-4o", "o1-pro"] });
    expect(plain).toMatchObject({ exact: false, notes: [] });
    expect(routed).toMatchObject({
      exact: false,
      cost_usd: plain.cost_usd,
      notes: [expect.stringContaining("also names o1-pro")],
    });
    expect(Number(routed.hold_usd)).toBeGreaterThan(10 * Number(plain.hold_usd));
    expect((await estimateOf({ ...hello, model: "gpt-4o", wonder: 1 })).notes).toEqual([
      expect.stringContaining("does not know wonder"),
    ]);
  });

  it("has the rates of the service tier, speed and region that the request asks for", async () => {
    const tokens = ["--input-tokens", "1000000", "--output-tokens", "1000000"];
    const costOf = async (more: object) =>
      (await estimateOf({ ...hello, model: "claude-opus-5-5", ...more }, ...tokens)).cost_usd;
    expect(await costOf({})).toBe("24.00");
    expect(await costOf({ speed: "fast" })).toBe("48.00");
    expect(await costOf({ speed: "fast", inference_geo: "us" })).toBe("52.80");
    expect(await costOf({ service_tier: "batch", inference_geo: "us" })).toBe("13.20");
    expect(await costOf({ service_tier: "auto", inference_geo: "us" })).toBe("26.40");
    const unknown = await estimateOf({ ...hello, model: "claude-opus-5-5", speed: "turbo" }, ...tokens);
    expect(unknown).toMatchObject({ cost_usd: "24.00", exact: false, unbounded_fields: ["speed"] });
  });

  it("equals the request's cost and hold to the last digit", async () => {
    await using proxy = await startProxy();
    const body = {
      model: "gpt-4o-2024-11-20",
      messages: [
        { role: "system", content: "Answer in the language of the question, briefly." },
        { role: "user", name: "ada", content: "Was bedeutet »Umweltverträglichkeitsprüfung«? 🙂" },
      ],
      max_tokens: 40,
    };
    await (await proxy.chat(body)).text();
    const charge = await proxy.onlyCharge();
    expect(charge.source).toBe("reported");
    const estimate = await estimateOf(body, "--output-tokens", String(charge.tokens.output));
    expect(estimate).toMatchObject({
      model: "gpt-4o",
      price_version: charge.priceId,
      cost_usd: usd(charge.cost),
      list_cost_usd: usd(charge.listCost),
      exact: true,
      hold_usd: usd(charge.hold),
      held_for: { output_tokens: charge.basis?.outputTokens, by: charge.basis?.by },
    });
    expect(estimate.items).toMatchObject([
      { class: "input", tokens: charge.tokens.input, usd_per_million: "1.25", known: "exact", why: null },
      { class: "output", tokens: charge.tokens.output, usd_per_million: "5.00", known: "exact", why: "as given" },
    ]);
  });

  it("equals the documented prices of a million tokens each way", async () => {
    const costs = await Promise.all(
      ["claude-opus-4-6", "claude-sonnet-4-6", "gemini-2.5-flash"].map(async (model) => {
        const estimate = await estimateOf(
          null,
          "--model",
          model,
          "--input-tokens",
          "1000000",
          "--output-tokens",
          "1000000",
        );
        return estimate.cost_usd;
      }),
    );
    expect(costs).toEqual(["22.50", "13.50", "0.70"]);
  });

  it("marks output and images as bounds, and all items if only a model is given", async () => {
    const body = {
      model: "gpt-4o",
      n: 3,
      max_tokens: 100,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "hi" },
            { type: "image_url", image_url: { url: "https://x/y.png" } },
          ],
        },
      ],
    };
    const estimate = await estimateOf(body);
    expect(known(estimate)).toEqual({ input: "exact", image_input: "bound", output: "bound" });
    expect(estimate).toMatchObject({
      exact: false,
      items: [
        { tokens: 8 },
        { tokens: 1445 },
        { tokens: 300, why: "the largest output that the request allows for each of 3 choices" },
      ],
    });
    const alone = await estimateOf(null, "--model", "gpt-4o");
    expect(alone.items).toMatchObject([
      { tokens: 128_000, known: "bound" },
      { tokens: 16_384, known: "bound" },
    ]);
    expect(alone.hold_usd).toBe(alone.cost_usd);
  });

  it("states the prompt tokens of both holds, and what decided them", async () => {
    const prose = [{ role: "user", content: "Say hello to the people of the world. ".repeat(50) }];
    const gpt = await estimateOf({ model: "gpt-4o", max_tokens: 10, messages: prose });
    expect(gpt).toMatchObject({ held_prompt: { by: "bytes" }, counted_prompt: { by: "tokenizer" } });
    const claude = await estimateOf({ model: "claude-opus-5-5", max_tokens: 10, messages: prose });
    expect(claude).toMatchObject({ held_prompt: { by: "bytes" }, counted_prompt: { by: "words" } });
    expect(claude.counted_prompt?.tokens).toBeLessThan((claude.held_prompt?.tokens ?? 0) / 2.5);
    const hidden = await estimateOf({ model: "claude-opus-5-5", wonder: 1, messages: prose });
    expect(hidden).toMatchObject({ held_prompt: { tokens: 1_000_000, by: "context" }, counted_prompt: null });
    const alone = await estimateOf(null, "--model", "claude-opus-5-5");
    expect(alone).toMatchObject({ held_prompt: { tokens: 1_000_000, by: "context" }, counted_prompt: null });
  });

  it("marks input as an estimate with a foreign tokenizer, tools or a schema", async () => {
    const claude = await estimateOf({ model: "claude-sonnet-4-6", ...hello }, "--output-tokens", "10");
    expect(claude.items[0]).toMatchObject({ known: "estimate", why: expect.stringContaining("multiplied by 1.5") });
    const plain = await estimateOf({ model: "gpt-4o", ...hello }, "--output-tokens", "10");
    const tools = [
      {
        type: "function",
        function: {
          name: "look_up",
          description: "Looks up.",
          parameters: { type: "object", properties: { word: { type: "string" } } },
        },
      },
    ];
    const withTools = await estimateOf({ model: "gpt-4o", ...hello, tools }, "--output-tokens", "10");
    const json_schema = { name: "answer", schema: { type: "object", properties: { word: { type: "string" } } } };
    const withSchema = await estimateOf(
      { model: "gpt-4o", ...hello, response_format: { type: "json_schema", json_schema } },
      "--output-tokens",
      "10",
    );
    expect(plain.exact).toBe(true);
    for (const estimate of [withTools, withSchema]) {
      expect(estimate).toMatchObject({ exact: false, items: [{ known: "estimate" }, { known: "exact" }] });
      expect(estimate.items[0]?.tokens).toBeGreaterThan(plain.items[0]?.tokens ?? 0);
    }
  });

  it("assumes the full context for hidden parts, and lists unbounded fields", async () => {
    const hidden = await estimateOf({ model: "gpt-4o", ...hello, documents: [] });
    expect(hidden.items).toMatchObject([
      { tokens: 128_000, known: "bound", why: expect.stringContaining("documents") },
      { tokens: 16_384 },
    ]);
    const prediction = { type: "content", content: "x" };
    const predicted = await estimateOf({ model: "gpt-4o", ...hello, max_tokens: 10, prediction });
    expect(predicted.items[1]).toMatchObject({
      tokens: 10 + JSON.stringify(prediction).length,
      known: "bound",
      why: expect.stringContaining("tokens of the prediction"),
    });
    const searching = await estimateOf({ model: "gpt-4o", ...hello, web_search_options: {} }, "--output-tokens", "1");
    expect(searching).toMatchObject({
      exact: false,
      unbounded_fields: ["web_search_options"],
      notes: [expect.stringContaining("web_search_options")],
    });
  });

  it("is for the model that --model names, and limits parts of unknown size to the context", async () => {
    const file = {
      model: "gpt-4o-mini",
      messages: [{ role: "user", content: [{ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } }] }],
    };
    const estimate = await estimateOf(file, "--model", "gpt-4o");
    expect(estimate.model).toBe("gpt-4o");
    const [input, audio] = estimate.items;
    expect((input?.tokens ?? 0) + (audio?.tokens ?? 0)).toBe(128_000);
    expect((await estimateOf(hello, "--model", "gpt-4o", "--output-tokens", "1")).items[0]?.tokens).toBe(8);
  });
});

describe("farebox estimate", () => {
  it("shows the minimum charge as a separate item, and uses the default price as a ceiling for unknown models", async () => {
    using cli = harness();
    const mine = join(cli.folder, "mine.yaml");
    writeFileSync(
      mine,
      `provider: example
models:
  least:
    context_tokens: 1000
    max_output_tokens: 100
    prices:
      - { from: 2026-01-01, source: test, official: { input: "1", output: "4" }, gateway: { input: "1", output: "4" }, minimum: { usd: "0.005" } }
default:
  context_tokens: 1000
  max_output_tokens: 100
  prices:
    - { from: 2026-01-01, source: test, official: { input: "50", output: "100" }, gateway: { input: "50", output: "100" } }
`,
    );
    const given = ["--input-tokens", "10", "--output-tokens", "10", "--pricing", cli.folder];
    const least = await cli.json<EstimateJson>("estimate", "--model", "least", ...given);
    expect(least).toMatchObject({ cost_usd: "0.005", list_cost_usd: "0.00005", minimum_applied: true, exact: true });
    expect(least.items.at(-1)).toMatchObject({
      class: "minimum",
      tokens: 0,
      cost_usd: "0.00495",
      why: "the gateway's minimum charge",
    });
    const unknown = await cli.json<EstimateJson>("estimate", "--model", "who-knows", ...given);
    expect(unknown).toMatchObject({ model: "default", exact: false, notes: [expect.stringContaining("ceiling")] });
  });

  it("prints a table with reasons, and the hold", async () => {
    using cli = harness();
    const ran = await cli.run("estimate", "--model", "model-a", "--input-tokens", "1000", "--output-tokens", "100");
    expect(ran).toEqual({
      code: 0,
      stdout: [
        "item\ttokens\tUSD per 1M\tcost\tlist cost\tknown\tbecause",
        "input\t1000\t1.00\t0.001\t0.002\texact\tas given",
        "output\t100\t4.00\t0.0004\t0.0008\texact\tas given",
        "total\t-\t-\t0.0014\t0.0028\texact\t",
        "",
      ].join("\n"),
      stderr: "the proxy holds at most USD 0.193536 for a request to this model\n",
    });
  });

  it("prices tokens that are read from the cache and written to it, to the last digit", async () => {
    const given = ["--model", "claude-opus-4-6", "--input-tokens", "100003", "--output-tokens", "7"];
    const cached = ["--cached-tokens", "80001", "--cache-write-tokens", "10001"];
    const estimate = await estimateOf(null, ...given, ...cached);
    expect(estimate.items).toMatchObject([
      { class: "input", tokens: 10_001, usd_per_million: "3.75", cost_usd: "0.03750375", known: "exact" },
      { class: "cached_input", tokens: 80_001, usd_per_million: "3.75", cost_usd: "0.30000375", known: "exact" },
      { class: "cache_write", tokens: 10_001, usd_per_million: "4.6875", cost_usd: "0.0468796875", known: "exact" },
      { class: "output", tokens: 7, usd_per_million: "18.75", cost_usd: "0.00013125", known: "exact" },
    ]);
    expect(estimate).toMatchObject({
      cost_usd: "0.3845184375",
      // 10,001 × 5.00 + 80,001 × 0.50 + 10,001 × 6.25 + 7 × 25.00
      list_cost_usd: "0.15268675",
      exact: true,
    });
    const { items } = await estimateOf(null, ...given, "--cached-tokens", "100003", "--cache-write-tokens", "0");
    expect(items.map((item) => [item.class, item.tokens])).toEqual([
      ["cached_input", 100_003],
      ["output", 7],
    ]);
    expect(await estimateOf(null, ...given, "--cached-tokens", "0")).toEqual(await estimateOf(null, ...given));
  });

  it.each([
    ["no model", [], "", 2, "estimate needs --model, or a --file with a request that names a model"],
    [
      "an unknown model",
      ["--model", "model-b"],
      "",
      1,
      'no price file names the model "model-b"; did you mean "model-a"?',
    ],
    [
      "a model without a price yet",
      ["--model", "later"],
      "",
      1,
      'the model "later" has no price in force; farebox prices list shows the models that have a price',
    ],
    [
      "a missing file",
      ["--file", "/nowhere/request.json"],
      "",
      2,
      "/nowhere/request.json cannot be read: there is no such file",
    ],
    ["incomplete JSON", ["--file", "-"], '{"model": "model-a",\n', 1, /^stdin is not valid JSON: .*line 2 column 1/],
    [
      "a fault in a long string",
      ["--file", "-"],
      `{"model": "model-a", "messages": [{"role": "user", "content": "${"x".repeat(5000)}\\q"}]}`,
      1,
      /^stdin is not valid JSON: /,
    ],
    ["a list instead of an object", ["--file", "-"], "[1]", 1, "stdin must be a JSON object with model and messages"],
    ["empty input", ["--file", "-"], "", 1, /^stdin is not valid JSON/],
    ["input that is not UTF-8", ["--file", "-"], Buffer.from([0x7b, 0xff, 0x7d]), 1, "stdin is not UTF-8 text"],
    [
      "no messages",
      ["--file", "-"],
      '{"model": "model-a"}',
      1,
      "stdin is not a chat request: 'messages' must be a list with at least one message",
    ],
    [
      "a duplicate model",
      ["--file", "-", "--model", "model-a"],
      '{"model": "a", "model": "b", "messages": [{}]}',
      1,
      "stdin is not a chat request: 'model' is given twice",
    ],
    [
      "more cached tokens than the prompt has",
      ["--model", "model-a", "--input-tokens", "100", "--cached-tokens", "101"],
      "",
      2,
      /^--cached-tokens is 101, more than --input-tokens, which is 100 and includes them$/m,
    ],
    [
      "more tokens of the cache together than the prompt has, also for JSON",
      ["--model", "model-a", "--input-tokens", "100", "--cached-tokens", "60", "--cache-write-tokens", "41", "--json"],
      "",
      2,
      /^--cached-tokens and --cache-write-tokens are together 101, more than --input-tokens, which is 100 and includes them$/m,
    ],
    [
      "cached tokens of a prompt of unknown size",
      ["--model", "model-a", "--cache-write-tokens", "1"],
      "",
      2,
      /^--cache-write-tokens is part of --input-tokens; state it too$/m,
    ],
    [
      "a negative number of tokens",
      ["--model", "model-a", "--output-tokens", "-5"],
      "",
      2,
      /must be a whole number from 0 to/,
    ],
  ] as const)("refuses %s in one sentence", async (_what, argv, stdin, code, sentence) => {
    using cli = harness();
    writeFileSync(
      join(cli.folder, "later.yaml"),
      'provider: example\nmodels:\n  later:\n    context_tokens: 10\n    max_output_tokens: 10\n    prices:\n      - { from: 2030-01-01, source: test, official: { input: "1", output: "1" }, gateway: { input: "1", output: "1" } }\n',
    );
    cli.stdin = stdin;
    const ran = await cli.run("estimate", ...argv, "--pricing", cli.folder);
    expect(ran.code).toBe(code);
    expect(ran.stdout).toBe("");
    expect(ran.stderr.replace("farebox: ", "")).toMatch(sentence);
  });
});

function usd(amount: PicoUsd | null): string | null {
  return amount === null ? null : formatUsd(amount);
}
