import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Effect } from "../../../src/catalogue/effects.ts";
import { Block, readPriceFile, type Decided } from "../../../src/catalogue/read.ts";
import { chargedRates, chargedUsd, listRates, rateOf, type Fraction } from "../../../src/catalogue/rates.ts";
import {
  formatRate,
  formatUsd,
  parseRate,
  parseUsd,
  type PicoUsd,
  type PicoUsdPerToken,
} from "../../../src/core/money.ts";
import { catalogueOf, today } from "../../support/example-catalogue.ts";

const decimal = fc.bigInt({ min: 0n, max: 10_000_000_000n }).map((value) => formatRate(value as PicoUsdPerToken));
const fraction = fc
  .oneof(fc.bigInt({ min: 0n, max: 2_000_000n }), fc.constantFrom(250_000n, 500_000n, 750_000n, 1_000_000n))
  .map((value) => formatRate(value as PicoUsdPerToken));

const reports: string[] = [];
const block = new Block(readPriceFile("a.yaml", ""), 0, [], ({ message }) => reports.push(message));

function decided(value: string): Decided<string> {
  return { value, block };
}

function termsWith(value: string) {
  const share: Fraction = { value, block, millionths: rateOf(value), by: 'group "g"', effect: new Effect() };
  return { model: "example", fraction: share, assigned: null, cacheTerms: {} };
}

describe("a group's share", () => {
  it("of rates is exact or refused", () => {
    fc.assert(
      fc.property(decimal, decimal, fraction, (input, output, text) => {
        const terms = termsWith(text);
        const charged = chargedRates(
          { official: { input: decided(input), output: decided(output) }, gateway: {} },
          terms,
        );
        const exact = [input, output].map((rate) => (parseRate(rate) ?? 0n) * terms.fraction.millionths);
        expect(charged.ok).toBe(exact.every((product) => product % 1_000_000n === 0n));
        if (charged.ok)
          expect([charged.rates.input, charged.rates.output].map((rate) => rate * 1_000_000n)).toEqual(exact);
      }),
    );
  });

  it("of 1 is the official price in all classes except cached input", () => {
    fc.assert(
      fc.property(decimal, decimal, decimal, (input, cached_input, output) => {
        const official = { input: decided(input), cached_input: decided(cached_input), output: decided(output) };
        const list = listRates(official);
        expect(chargedRates({ official, gateway: {} }, termsWith("1"))).toEqual({
          ok: true,
          rates: { ...list, cached_input: list.input },
        });
      }),
    );
  });

  it("of a flat price is exact or refused", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 13n }), fraction, (amount, text) => {
        const terms = termsWith(text);
        const product = amount * terms.fraction.millionths;
        const expected = product % 1_000_000n === 0n ? product / 1_000_000n : undefined;
        reports.length = 0;
        expect(chargedUsd({ official: decided(formatUsd(amount as PicoUsd)) }, terms)).toBe(expected);
        expect(reports).toHaveLength(expected === undefined ? 1 : 0);
        expect(parseUsd(formatUsd(amount as PicoUsd))).toBe(amount);
      }),
    );
  });
});

describe("the documented example", () => {
  it("is a valid price file", () => {
    const catalogue = catalogueOf({
      "gateway.yaml": `
groups:
  large-general: { fraction: "0.50" }
task_units: { llm: "10000000" }
default: null
`,
      "openai.yaml": `
provider: openai
models:
  gpt-4o:
    aliases: [gpt-4o-2024-11-20]
    group: large-general
    tokenizer: o200k_base
    context_tokens: 128000
    max_output_tokens: 16384
    prices:
      - from: 2024-10-02
        source: "official price list, seen 2026-08-21"
        official: { input: "2.50", cached_input: "1.25", output: "10.00" }
        gateway: { input: "1.25", output: "5.00" }
        minimum: { tokens: 0, usd: "0" }
        tiers: []
`,
    });
    expect(catalogue.find("gpt-4o-2024-11-20", today)).toMatchObject({ id: "gpt-4o", group: "large-general" });
  });
});
