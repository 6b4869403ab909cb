import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, it } from "vitest";
import type { LoadedCatalogue } from "../../../src/catalogue/catalogue.ts";
import { loadCatalogue } from "../../../src/catalogue/load.ts";
import { priceFileJsonSchema } from "../../../src/catalogue/schema.ts";
import { costOf } from "../../../src/core/cost.ts";
import { imageTokensMax } from "../../../src/core/prompt-text.ts";
import { formatRate, formatUsd } from "../../../src/core/money.ts";
import { noTokens } from "../../../src/core/usage.ts";
import { expectCatalogue, pricing, today } from "../../support/example-catalogue.ts";

/** Start of the day on which the shipped prices were last reviewed. */
const reviewed = Date.parse("2026-11-22T00:00:00Z");

let catalogue: LoadedCatalogue;
beforeAll(async () => {
  catalogue = expectCatalogue(await loadCatalogue({ shipped: pricing }));
});

function priceOf(model: string, at = today) {
  const price = catalogue.find(model, at)?.price;
  if (price === null || price === undefined) throw new Error(`${model} has no price`);
  return price.version;
}

describe("the shipped prices", () => {
  it.each([
    ["claude-opus-4-6", "22.50"],
    ["claude-sonnet-4-6", "13.50"],
    ["gemini-2.5-flash", "0.70"],
  ])("charge 1M tokens in and 1M out of %s with exactly USD %s", (model, expected) => {
    const tokens = { ...noTokens, input: 1_000_000, output: 1_000_000 };
    expect(formatUsd(costOf(priceOf(model), tokens).charged)).toBe(expected);
  });

  it.each([
    ["gpt-4o", "large-general", "1.25", "5.00"],
    ["gpt-5", "large-general", "0.625", "5.00"],
    ["gpt-5.2", "large-general", "0.875", "7.00"],
    ["gpt-4o-mini", "small-general", "0.1125", "0.45"],
    ["gpt-4.1", "small-general", "1.50", "6.00"],
    ["gpt-4.1-mini", "small-general", "0.30", "1.20"],
    ["gpt-4.1-nano", "small-general", "0.075", "0.30"],
    ["claude-opus-4-6", "premium", "3.75", "18.75"],
    ["claude-sonnet-4-6", "premium", "2.25", "11.25"],
    ["gemini-2.5-flash", "fast", "0.075", "0.625"],
  ])("charge %s in group %s with %s in and %s out", (model, group, input, output) => {
    const { charged } = priceOf(model).tiers[0];
    expect(catalogue.find(model, today)?.group).toBe(group);
    expect([formatRate(charged.input), formatRate(charged.output)]).toEqual([input, output]);
  });

  it("bound an image for every text model, at least by the most that its rule counts", () => {
    for (const { id, imageRule, imagePartTokens, unit } of catalogue.list(today)) {
      if (unit !== "token") continue;
      expect(imagePartTokens, id).toBeGreaterThanOrEqual(imageRule === null ? 1 : imageTokensMax(imageRule));
    }
  });

  it.each([
    ["gpt-4o", "chat"],
    ["gpt-5", "harmony"],
    ["gpt-5.6-sol", "harmony"],
    ["gpt-4.1", "chat"],
    ["claude-opus-4-6", "chat"],
  ])("state for %s the prompt form %s", (model, form) => {
    expect(catalogue.find(model, today)?.promptForm).toBe(form);
  });

  it("name the field that limits a text model's output, which differs for reasoning models in chats", () => {
    const models = catalogue.list(today).filter(({ outputTokensMax, unit }) => outputTokensMax > 0 && unit === "token");
    for (const { id, provider, maxOutputField } of models) {
      if (/transcribe|tts|image|embedding|whisper/.test(id)) continue;
      const reasons = provider === "openai" && !/^(chat)?gpt-([34]|audio)/.test(id);
      expect([id, maxOutputField.chat]).toEqual([id, reasons ? "max_completion_tokens" : "max_tokens"]);
      expect([id, maxOutputField.responses]).toEqual([id, "max_output_tokens"]);
    }
    expect(models.filter(({ id }) => /^(gpt-5|o[134])/.test(id)).length).toBeGreaterThan(30);
  });

  it("state gateway rates that equal the group's share exactly", () => {
    const shares = { premium: [3n, 4n], fast: [1n, 4n] } as const;
    for (const model of ["claude-opus-4-6", "claude-sonnet-4-6", "gemini-2.5-flash"]) {
      const { tiers, group } = priceOf(model);
      const [part, whole] = shares[group as keyof typeof shares];
      expect(tiers[0].charged.input * whole).toBe(tiers[0].list.input * part);
      expect(tiers[0].charged.output * whole).toBe(tiers[0].list.output * part);
    }
  });

  it("charge cached input at the input rate and list it at the official cached rate", () => {
    const { charged, list } = priceOf("gpt-4o").tiers[0];
    expect(formatRate(charged.cached_input)).toBe("1.25");
    expect(formatRate(list.cached_input)).toBe("1.25");
    expect(formatRate(priceOf("gpt-5").tiers[0].charged.cached_input)).toBe("0.625");
    expect(formatRate(priceOf("gpt-5").tiers[0].list.cached_input)).toBe("0.125");
  });

  it("contain gpt-image-1 in the image group, for the images endpoints only", () => {
    expect(catalogue.find("gpt-image-1", today)).toMatchObject({ group: "image", imagesOnly: true });
  });

  it("charge all tokens of long prompts of gemini-2.5-pro by the higher tier", () => {
    const cost = (input: number) => formatUsd(costOf(priceOf("gemini-2.5-pro"), { ...noTokens, input }).charged);
    expect(cost(200_000)).toBe("0.25");
    expect(cost(200_001)).toBe("0.5000025");
  });

  it("change on the same day as the official list", () => {
    const before = priceOf("claude-opus-4-6", Date.parse("2026-03-12T23:59:59.999Z"));
    const after = priceOf("claude-opus-4-6", Date.parse("2026-03-13T00:00:00Z"));
    expect(before.tiers.map((tier) => formatRate(tier.charged.input))).toEqual(["3.75", "7.50"]);
    expect(after.tiers).toHaveLength(1);
  });

  describe("reviewed on 2026-11-22", () => {
    const ratesOf = (model: string, at: number) =>
      priceOf(model, at).tiers.map(({ list }) =>
        [list.input, list.cached_input, list.cache_write, list.output].map(formatRate).join(" "),
      );

    it.each([
      ["gpt-5.6-luna", ["1.00 0.10 1.25 6.00", "2.00 0.20 2.50 9.00"], ["0.20 0.02 0.25 1.20", "0.40 0.04 0.50 1.80"]],
      [
        "gpt-5.6-sol",
        ["5.00 0.50 6.25 30.00", "10.00 1.00 12.50 45.00"],
        ["4.00 0.40 5.00 20.00", "8.00 0.80 10.00 30.00"],
      ],
      [
        "gpt-5.6-terra",
        ["2.50 0.25 3.125 15.00", "5.00 0.50 6.25 22.50"],
        ["2.00 0.20 2.50 12.00", "4.00 0.40 5.00 18.00"],
      ],
      ["claude-sonnet-5", ["3.00 0.30 3.75 15.00"], ["2.00 0.20 2.50 10.00"]],
      ["gemini-3.6-flash", ["1.50 0.15 1.50 7.50"], ["0.75 0.075 0.75 3.75"]],
      ["gpt-5.5", ["5.00 0.50 5.00 30.00"], ["5.00 0.50 5.00 30.00", "10.00 1.00 10.00 45.00"]],
      ["gpt-5.5-pro", ["30.00 30.00 30.00 180.00"], ["30.00 30.00 30.00 180.00", "60.00 60.00 60.00 270.00"]],
    ])("have the official prices of %s, and the earlier ones for earlier days", (model, was, is) => {
      expect(ratesOf(model, reviewed - 1)).toEqual(was);
      expect(ratesOf(model, reviewed)).toEqual(is);
    });

    it("state service tiers, one-hour cache writes and fees at the group's share", () => {
      const tokens = { ...noTokens, input: 1_000_000, output: 1_000_000 };
      const cost = (model: string, serviceTier: string | null) =>
        formatUsd(costOf(priceOf(model, reviewed), tokens, { serviceTier, calls: {} }).charged);
      expect([cost("gpt-5", null), cost("gpt-5", "priority"), cost("gpt-5", "flex"), cost("gpt-5", "batch")]).toEqual([
        "5.625",
        "11.25",
        "2.8125",
        "2.8125",
      ]);
      expect(cost("claude-opus-4-6", null)).toBe("22.50");
      expect(formatRate(priceOf("claude-opus-4-6", reviewed).tiers[0].list.cache_write_1h)).toBe("10.00");
      expect(priceOf("gpt-4o", reviewed).fees?.["web_search_call"]).toEqual({
        charged: 5_000_000_000n,
        list: 10_000_000_000n,
        inputTokens: 16_000,
      });
      // The two tables differ on this fee.
      expect(priceOf("gpt-4o-mini", reviewed).fees?.["web_search_call"]).toBeUndefined();
    });

    it("end the introductory rates of gemini-3.6-flash on the announced day", () => {
      expect(ratesOf("gemini-3.6-flash", Date.parse("2026-12-31T23:59:59.999Z"))).toEqual(["0.75 0.075 0.75 3.75"]);
      expect(ratesOf("gemini-3.6-flash", Date.parse("2027-01-01T00:00:00Z"))).toEqual(["1.50 0.15 1.50 7.50"]);
    });

    it.each([
      ["gpt-5.5", "1.36", "2.72001"],
      ["gpt-5.5-pro", "8.16", "16.32006"],
    ])("charge all tokens of long prompts of %s by their tier", (model, short, long) => {
      const cost = (input: number) => formatUsd(costOf(priceOf(model, reviewed), { ...noTokens, input }).charged);
      expect([cost(272_000), cost(272_001)]).toEqual([short, long]);
    });
  });

  it("never charge less than the official price in the official group", () => {
    for (const { group, price } of [...catalogue.list(today), ...catalogue.list(reviewed)]) {
      if (group !== "official" || price === null) continue;
      for (const tier of price.version.tiers) {
        expect(tier.charged.input).toBeGreaterThanOrEqual(tier.list.cached_input);
        expect(tier.charged.output).toBeGreaterThanOrEqual(tier.list.output);
        expect(tier.charged.input).toBeGreaterThanOrEqual(tier.list.input);
      }
    }
  });

  it("have a price in force, a source and plausible bounds for every model", () => {
    const models = catalogue.list(reviewed);
    expect(models.length).toBeGreaterThan(60);
    expect(models.filter(({ price }) => price === null).map(({ id }) => id)).toEqual([]);
    for (const model of models) {
      expect(model.outputTokensMax).toBeLessThanOrEqual(model.contextTokens);
      expect(model.tokensPerByte).toBeGreaterThanOrEqual(1000);
      expect(model.tokenizerIsPublic).toBe(model.errorFactor === 1000);
      expect(model.price?.version.source ?? "list").toMatch(/list/);
    }
  });

  it("resolve ids, aliases and other spellings, but not the empty name or __proto__", () => {
    for (const model of catalogue.list(today)) expect(catalogue.find(model.id, today)).toBe(model);
    expect(catalogue.find("gpt-4o-2024-08-06", today)?.id).toBe("gpt-4o");
    expect(catalogue.find("claude-opus-4.6", today)?.id).toBe("claude-opus-4-6");
    expect(catalogue.find("", today)).toBeUndefined();
    expect(catalogue.find("OpenAI/GPT-4o", today)?.id).toBe("gpt-4o");
    expect(catalogue.find("__proto__", today)).toBeUndefined();
  });

  it("state the gateway's task units", () => {
    expect(catalogue.taskUnits).toEqual(new Map([["llm", 10_000_000n]]));
  });

  it("state the time limit of music", () => {
    const limit = 15 * 60_000;
    expect(catalogue.taskTimeLimits).toEqual(
      new Map([
        ["suno", limit],
        ["udio", limit],
        ["music", limit],
      ]),
    );
  });

  it("come with a current schema for editors", () => {
    const stored = readFileSync(new URL("schema.json", pricing), "utf8");
    expect(stored, "write priceFileJsonSchema() to pricing/schema.json").toBe(priceFileJsonSchema());
  });
});
