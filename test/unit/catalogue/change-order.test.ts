import { describe, expect, it } from "vitest";
import { formatRate } from "../../../src/core/money.ts";
import { catalogueOf, oneModel, today } from "../../support/example-catalogue.ts";

const shipped = { "shipped.yaml": oneModel };

/** Returns the charged output rate, in USD per 1M tokens, with these files of the user. */
function outputWith(own: Readonly<Record<string, string>>): string | undefined {
  const price = catalogueOf(shipped, own).find("big", today)?.price;
  return price == null ? undefined : formatRate(price.version.tiers[0].charged.output);
}

const changeOf = (name: string, from: string, output: string) =>
  `models: { "${name}": { change: { from: ${from}, source: ours, gateway: { output: "${output}" } } } }\n`;

describe("of several changes of one figure in several files", () => {
  const early = (name: string) => changeOf(name, "2026-02-01", "6.00");
  const late = (name: string) => changeOf(name, "2026-03-01", "7.00");
  const future = (name: string) => changeOf(name, "2026-12-01", "8.00");

  it.each([
    ["the model's id", "big"],
    ["a pattern", "b*"],
  ])("the latest in force decides, whatever the order of the files, with %s", (_, name) => {
    expect(outputWith({ "a.yaml": early(name), "b.yaml": late(name), "c.yaml": future(name) })).toBe("7.00");
    expect(outputWith({ "a.yaml": future(name), "b.yaml": late(name), "c.yaml": early(name) })).toBe("7.00");
    expect(outputWith({ "a.yaml": late(name), "b.yaml": future(name), "c.yaml": early(name) })).toBe("7.00");
  });

  it("the id precedes a pattern, and a longer pattern precedes a shorter one, whatever their days", () => {
    expect(outputWith({ "a.yaml": early("big"), "b.yaml": late("b*") })).toBe("6.00");
    expect(outputWith({ "a.yaml": late("b*"), "b.yaml": early("bi*") })).toBe("6.00");
    // Only the characters other than `*` count.
    expect(outputWith({ "a.yaml": late("b***"), "b.yaml": early("bi*") })).toBe("6.00");
  });

  it("an earlier one is in force again after the end of a later one", () => {
    const ended = late("big").replace("source", "until: 2026-11-20, source");
    expect(outputWith({ "a.yaml": early("big"), "b.yaml": ended })).toBe("6.00");
    expect(outputWith({ "a.yaml": early("big"), "b.yaml": ended.replace("2026-11-20", "2026-11-21") })).toBe("7.00");
  });
});

it("a change without a price leaves the price with its id, in all spans", () => {
  const priceOf = (...layers: Readonly<Record<string, string>>[]) => {
    const [history] = catalogueOf(...layers).histories();
    return new Set(history?.spans.map(({ model }) => model.price?.id));
  };
  const trait = { "own.yaml": "models: { big: { change: { from: 2026-03-01, max_output_tokens: 50 } } }\n" };
  expect(priceOf(shipped, trait)).toEqual(priceOf(shipped));
});

it("a change of the group from a day splits the price on that day", () => {
  const own = `groups: { full: { fraction: "1" } }
models: { big: { change: { from: 2026-03-01, group: full } } }
`;
  const [history] = catalogueOf(shipped, { "own.yaml": own }).histories();
  const priced = history?.spans.filter(({ model }) => model.price !== null) ?? [];
  expect(priced.map(({ start, model }) => [start, model.group, model.price?.version.fraction])).toEqual([
    [Date.parse("2026-01-01"), "half", "0.5"],
    [Date.parse("2026-03-01"), "full", "1"],
  ]);
});
