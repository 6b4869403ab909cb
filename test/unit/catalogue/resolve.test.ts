import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { costOf } from "../../../src/core/cost.ts";
import { formatRate, formatUsd, usd } from "../../../src/core/money.ts";
import { canonicalPrice, parseCanonicalPrice } from "../../../src/core/price.ts";
import { noTokens } from "../../../src/core/usage.ts";
import type { LoadedCatalogue } from "../../../src/catalogue/catalogue.ts";
import { catalogueOf, oneModel, today } from "../../support/example-catalogue.ts";

/** Returns a catalogue of the model `big` with the given price lines. */
function priced(prices: string, group = "half"): LoadedCatalogue {
  const start = oneModel.indexOf("      - from");
  return catalogueOf({ "a.yaml": oneModel.slice(0, start).replace("group: half", `group: ${group}`) + prices });
}

function versionAt(catalogue: LoadedCatalogue, at: string) {
  return catalogue.find("big", Date.parse(at))?.price?.version;
}

const listed = '        source: "a list"\n';

describe("a price's validity", () => {
  const catalogue = priced(`      - from: 2026-01-01
${listed}        official: { input: "2", output: "10" }
      - from: 2026-03-01
        until: 2026-06-01
${listed}        official: { input: "4", output: "20" }
`);

  it.each([
    ["2025-12-31T23:59:59.999Z", undefined],
    ["2026-01-01T00:00:00.000Z", "1.00"],
    ["2026-02-28T23:59:59.999Z", "1.00"],
    ["2026-03-01T00:00:00.000Z", "2.00"],
    ["2026-05-31T23:59:59.999Z", "2.00"],
    ["2026-06-01T00:00:00.000Z", undefined],
  ])("gives %s the input rate %s", (at, expected) => {
    const version = versionAt(catalogue, at);
    expect(version && formatRate(version.tiers[0].charged.input)).toBe(expected);
  });

  it("is part of the version, and ends at its successor's start", () => {
    expect(versionAt(catalogue, "2026-01-01T00:00:00Z")).toMatchObject({ from: "2026-01-01", until: "2026-03-01" });
    expect(versionAt(catalogue, "2026-03-01T00:00:00Z")).toMatchObject({ from: "2026-03-01", until: "2026-06-01" });
  });

  it("leaves a known model without a price at other times", () => {
    expect(catalogue.find("big", Date.parse("2025-01-01"))).toMatchObject({
      id: "big",
      price: null,
      contextTokens: 1000,
    });
    expect(catalogue.list(Date.parse("2025-01-01")).map(({ price }) => price)).toEqual([null]);
  });

  it("yields the same object for each lookup", () => {
    const at = Date.parse("2026-04-01");
    expect(catalogue.find("big", at)).toBe(catalogue.find("big", at + 1));
  });
});

describe("rates", () => {
  it("are the group's share in each class, with cached input charged as input", () => {
    const catalogue = priced(`      - from: 2026-01-01
${listed}        official: { input: "2", cached_input: "0.2", cache_write: "2.5", output: "10", reasoning: "12" }
`);
    const tier = versionAt(catalogue, "2026-04-01")?.tiers[0];
    expect(tier && Object.entries(tier.charged).map(([name, rate]) => `${name} ${formatRate(rate)}`)).toEqual([
      "input 1.00",
      "cached_input 1.00",
      "cache_write 1.25",
      "cache_write_1h 1.25",
      "audio_input 1.00",
      "image_input 1.00",
      "output 5.00",
      "reasoning 6.00",
      "audio_output 5.00",
      "image_output 5.00",
    ]);
    expect(tier && formatRate(tier.list.cached_input)).toBe("0.20");
    expect(versionAt(catalogue, "2026-04-01")?.fraction).toBe("0.5");
  });

  it("are the gateway's own if stated, and the version then has no fraction", () => {
    const catalogue = priced(`      - from: 2026-01-01
${listed}        official: { input: "2", cache_write: "4", output: "10" }
        gateway: { input: "1.1", cached_input: "0.3", output: "6" }
`);
    const version = versionAt(catalogue, "2026-04-01");
    const { charged } = version?.tiers[0] ?? { charged: undefined };
    expect(charged).toMatchObject({
      input: 1_100_000n,
      cached_input: 300_000n,
      cache_write: 2_000_000n,
      output: 6_000_000n,
    });
    expect(charged?.reasoning).toBe(6_000_000n);
    expect(version?.fraction).toBeNull();
  });

  it("need no group if all of the gateway's are stated", () => {
    const catalogue = priced(
      `      - from: 2026-01-01
${listed}        official: { input: "2", output: "10" }
        gateway: { input: "1", output: "2" }
`,
      "null",
    );
    expect(versionAt(catalogue, "2026-04-01")?.tiers[0].charged).toMatchObject({
      input: 1_000_000n,
      output: 2_000_000n,
    });
    expect(catalogue.find("big", today)?.group).toBeNull();
  });
});

describe("tiers", () => {
  const tiered = (mode: string) =>
    priced(`      - from: 2026-01-01
${listed}        official: { input: "2", output: "10" }
        tier_mode: ${mode}
        tiers:
          - { from_prompt_tokens: 101, official: { input: "4", output: "20" } }
`);

  it.each([
    ["whole_request", 100, "0.0006"],
    ["whole_request", 101, "0.001202"],
    ["marginal", 100, "0.0006"],
    ["marginal", 101, "0.001102"],
    ["marginal", 102, "0.001104"],
  ])("%s: %i tokens in and 100 out cost %s", (mode, input, expected) => {
    const version = versionAt(tiered(mode), "2026-04-01");
    expect(version && formatUsd(costOf(version, { ...noTokens, input, output: 100 }).charged)).toBe(expected);
  });
});

describe("service tiers and fees", () => {
  const version = versionAt(
    priced(`      - from: 2026-01-01
${listed}        official: { input: "2", output: "10" }
        service_tiers:
          priority: { official: { input: "4", output: "20" }, gateway: { output: "12" } }
          batch: { official: { input: "1", output: "5" }, tiers: [{ from_prompt_tokens: 11, official: { input: "1.5", output: "6" } }] }
        fees: { web_search_call: { usd: "0.01", input_tokens: 16000 }, file_search_call: { usd: "0.0025", gateway: "0.001", input_tokens: 0 } }
`),
    "2026-04-01",
  );
  const cost = (input: number, serviceTier: string | null, calls: Record<string, number> = {}) =>
    version && formatUsd(costOf(version, { ...noTokens, input, output: 10 }, { serviceTier, calls }).charged);

  it("are charged at the group's share or the gateway's own rate", () => {
    expect([cost(10, null), cost(10, "priority"), cost(10, "batch"), cost(11, "batch"), cost(10, "scale")]).toEqual([
      "0.00006",
      "0.00014",
      "0.00003",
      "0.00003825",
      "0.00006",
    ]);
    expect(cost(10, null, { web_search_call: 2, file_search_call: 3, mcp_call: 9 })).toBe("0.01306");
  });

  it("are part of the pinned price", () => {
    expect(version && parseCanonicalPrice(canonicalPrice(version))).toEqual(version);
  });
});

describe("minimums and flat prices", () => {
  it("apply a minimum of tokens and of USD", () => {
    const catalogue = priced(`      - from: 2026-01-01
${listed}        official: { input: "2", output: "10" }
        minimum: { tokens: 1000, usd: "0.005" }
`);
    const version = versionAt(catalogue, "2026-04-01");
    expect(version?.minimum).toEqual({ tokens: 1000, usd: usd("0.005") });
    expect(version && formatUsd(costOf(version, { ...noTokens, input: 10, output: 10 }).charged)).toBe("0.005");
    expect(version && formatUsd(costOf(version, { ...noTokens, output: 2000 }).charged)).toBe("0.01");
  });

  it("charge a flat price at the group's share or the gateway's own price", () => {
    const share = priced(`      - from: 2026-01-01\n${listed}        per_request: { official: "0.25" }\n`);
    expect(versionAt(share, "2026-04-01")?.perRequest).toEqual({ charged: usd("0.125"), list: usd("0.25") });
    const stated = priced(
      `      - from: 2026-01-01\n${listed}        per_request: { official: "0.25", gateway: "0.2" }\n`,
    );
    expect(versionAt(stated, "2026-04-01")).toMatchObject({
      perRequest: { charged: usd("0.2"), list: usd("0.25") },
      fraction: null,
    });
  });
});

describe("a pinned price", () => {
  it("has an id from its content, and can be parsed back to its version", () => {
    const pinned = catalogueOf({ "a.yaml": oneModel }).find("big", today)?.price;
    expect(pinned?.canonical).toBe(pinned && canonicalPrice(pinned.version));
    expect(pinned && parseCanonicalPrice(pinned.canonical)).toEqual(pinned?.version);
    expect(pinned?.id).toBe(
      createHash("sha256")
        .update(pinned?.canonical ?? "")
        .digest("hex")
        .slice(0, 32),
    );
  });
});

describe("traits", () => {
  const bare = (lines: string, defaults = "") =>
    catalogueOf({
      "a.yaml": `provider: example\ndefaults: { context_tokens: 1000, max_output_tokens: 100${defaults} }\nmodels:\n  big: { ${lines} }\n`,
    }).find("big", today);

  it("have the most expensive values by default", () => {
    expect(bare("")).toMatchObject({
      encoding: "o200k_base",
      tokenizerIsPublic: false,
      errorFactor: 1500,
      tokensPerByte: 1500,
      imagePartTokens: null,
      imageRule: null,
      promptForm: "chat",
      audioPartTokens: null,
      filePartTokens: null,
      reasons: true,
      billsServerErrors: false,
      maxOutputField: {},
      unit: "token",
      imagesOnly: false,
      servedAs: [],
      obeysMaxToolCalls: false,
    });
  });

  it("replace a file's default output fields as a whole", () => {
    const fields = ", max_output_field: { chat: max_tokens, responses: max_output_tokens }";
    expect(bare("", fields)?.maxOutputField).toEqual({ chat: "max_tokens", responses: "max_output_tokens" });
    expect(bare("max_output_field: { chat: max_completion_tokens }", fields)?.maxOutputField).toEqual({
      chat: "max_completion_tokens",
    });
  });

  it("are exact for a published tokenizer", () => {
    const model = bare("tokenizer: cl100k_base, reasoning: false");
    expect(model).toMatchObject({
      encoding: "cl100k_base",
      tokenizerIsPublic: true,
      errorFactor: 1000,
      tokensPerByte: 1000,
      reasons: false,
    });
  });

  it("of a model override its file's defaults, even with null", () => {
    const model = bare(
      'tokenizer: null, error_factor: "1.2", image_part_tokens: null',
      ", tokenizer: o200k_base, image_part_tokens: 7",
    );
    expect(model).toMatchObject({ tokenizerIsPublic: false, errorFactor: 1200, imagePartTokens: null });
    expect(bare("", ", image_part_tokens: 7")).toMatchObject({ imagePartTokens: 7 });
  });

  it("state how an image is counted, within the bound of a part", () => {
    const tiles = bare("image_tokens: { base: 85, tile: 170 }, image_part_tokens: 1445");
    expect(tiles?.imageRule).toEqual({ kind: "tiles", base: 85, tile: 170 });
    const patches = (rest: string) => bare(`image_tokens: { patch: 32, most: 1536${rest} }, image_part_tokens: 9000`);
    expect(patches("")?.imageRule).toEqual({ kind: "patches", side: 32, most: 1536, multiplier: 1000, longest: null });
    expect(patches(', multiplier: "1.62", longest: 2048')?.imageRule).toMatchObject({
      multiplier: 1620,
      longest: 2048,
    });
    expect(
      bare("image_tokens: null", ", image_tokens: { base: 1, tile: 1 }, image_part_tokens: 9")?.imageRule,
    ).toBeNull();
  });

  it("state the prompt form only of reasoning models", () => {
    expect(bare("", ", prompt_form: harmony")?.promptForm).toBe("harmony");
    expect(bare("reasoning: false", ", prompt_form: harmony")?.promptForm).toBe("chat");
    expect(bare("prompt_form: chat", ", prompt_form: harmony")?.promptForm).toBe("chat");
  });
});
