import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { faults } from "../../support/example-catalogue.ts";
import { runs } from "../../support/effort.ts";

const sound = `groups:
  half: { fraction: "0.5" }
  third: { fraction: "0.333333" }
gateway: { cached_input: official, minimum: { tokens: 20 } }
task_units: { llm: "10000000" }
provider: example
defaults:
  tokenizer: null
  tokens_per_byte: "1.5"
models:
  one:
    aliases: [uno, een]
    group: half
    context_tokens: 1000
    max_output_tokens: 100
    prices:
      - from: 2026-01-01
        until: 2026-03-01
        source: "the first list"
        official: { input: "2.00", output: "10.00" }
      - from: 2026-03-01 # later
        source: "the second list"
        official: { input: "3.00", output: "12.00" }
        tier_mode: whole_request
        tiers:
          - { from_prompt_tokens: 101, official: { input: "4.00", output: "14.00" } }
          - { from_prompt_tokens: 201, official: { input: "5.00", output: "15.00" } }
  # a place for more
  two:
    aliases: [dos]
    group: third # of two
    context_tokens: 2000
    max_output_tokens: 200
    prices:
      - from: 2026-02-01
        source: "a list of images"
        per_request: { official: "0.25" }
        minimum: { usd: "0.50" }
  # another place
  three:
    group: null
    context_tokens: 3000
    max_output_tokens: 300
    prices:
      - from: 2026-02-03
        source: "the third list"
        official: { input: "6.00", output: "16.00" }
        gateway: { input: "3.10", output: "8.10" }
      - from: 2026-05-03
        source: "the fourth list"
        official: { input: "6.50", output: "16.50" }
        gateway: { input: "3.20", output: "8.20" }
  five:
    group: half
    context_tokens: 1000
    max_output_tokens: 100
    prices: [{ from: 2026-01-01, source: "a list", official: { input: "2", output: "4" } }]
  "fi*e":
    change: { from: 2026-03-05, source: "a contract", tiers: [{ from_prompt_tokens: 150, official: { input: "3", output: "6" } }] }
  t*:
    changes:
      - context_tokens: 2500
      - { from: 2026-06-03, source: "another contract", minimum: { usd: "0.02" } }
`;

type Edit = readonly [from: string, to: string];

/** Compatible faults with their edits of the file; `¶` marks the position at which each must be reported. */
const plants: Readonly<Record<string, readonly Edit[]>> = {
  "a group's fraction as a number": [['"0.333333"', "¶0.333333"]],
  "units as a number": [['"10000000"', "¶10000000"]],
  "no provider": [
    ["provider: example\n", ""],
    ["models:", "¶models:"],
  ],
  "a factor below 1": [['"1.5"', '¶"0.5"']],
  "an unknown field at the top level": [["task_units:", "¶zzz: 1\ntask_units:"]],
  "an alias that is not a string": [["[uno, een]", "[uno, een, ¶5]"]],
  "an unknown group": [["group: third # of two", "group: ¶thrid # of two"]],
  "a quoted count": [["context_tokens: 1000", 'context_tokens: ¶"1000"']],
  "an overlap": [
    ["until: 2026-03-01", "until: 2026-04-01"],
    ["from: 2026-03-01 # later", "from: ¶2026-03-01 # later"],
  ],
  "a rate that is a number": [['input: "2.00"', "input: ¶2.00"]],
  "no source": [
    ['        source: "the fourth list"\n', ""],
    ["- from: 2026-05-03", "- ¶from: 2026-05-03"],
  ],
  "two shares that are not exact": [['input: "4.00", output: "14.00"', 'input: ¶"0.000001", output: ¶"0.000003"']],
  "an unknown tier mode": [["tier_mode: whole_request", "tier_mode: ¶sometimes"]],
  "tiers out of order": [["from_prompt_tokens: 201", "from_prompt_tokens: ¶101"]],
  "a rate that is too fine": [['output: "15.00"', 'output: ¶"15.0000001"']],
  "an alias of another model": [["[dos]", "[dos, ¶uno]"]],
  "a missing count": [
    ["    max_output_tokens: 200\n", ""],
    ["  two:", "  ¶two:"],
  ],
  "a flat price next to rates": [["per_request:", '¶gateway: { input: "1" }\n        per_request:']],
  "a minimum of tokens next to a flat price": [["{ usd:", "{ tokens: ¶5, usd:"]],
  "a day that does not exist": [["from: 2026-02-03", "from: ¶2026-02-30"]],
  "a mistyped field": [['source: "the third list"', '¶sorce: "the third list"']],
  "a gateway rate in words": [['input: "3.10"', 'input: ¶"cheap"']],
  "a price that is not a block": [
    [
      '        gateway: { input: "3.20", output: "8.20" }\n',
      '        gateway: { input: "3.20", output: "8.20" }\n      - ¶soon\n',
    ],
  ],
  "a model that is not a block": [["  # a place for more", "  four: ¶cheap"]],
  "a term that is no word": [["cached_input: official", "cached_input: ¶unofficial"]],
  "a minimum that states nothing": [["minimum: { tokens: 20 }", "¶minimum: {}"]],
  "a change without a source": [
    ['source: "a contract", ', ""],
    ["    change: { from: 2026-03-05", "    ¶change: { from: 2026-03-05"],
  ],
  "a change of a tier that misses": [
    [
      '{ from_prompt_tokens: 150, official: { input: "3", output: "6" } }',
      '{ from_prompt_tokens: ¶150, gateway: { input: "3" } }',
    ],
  ],
  "changes out of order": [
    ["- context_tokens: 2500", "- { from: 2026-07-01, context_tokens: 2500 }"],
    ["{ from: 2026-06-03", "{ from: ¶2026-06-03"],
  ],
  "a model stated twice": [["  # another place", "  ¶two: { group: nothing }"]],
};

/** Returns the file with these faults, and their positions. */
function planted(names: readonly string[]): { text: string; places: string[] } {
  let text = sound;
  for (const [from, to] of names.flatMap((name) => plants[name] ?? [])) {
    if (!text.includes(from)) throw new Error(`not in the file: ${from}`);
    text = text.replace(from, to);
  }
  const places = text.split("\n").flatMap((line, index) =>
    line
      .split("¶")
      .slice(1)
      .map(
        (_, mark) =>
          `a.yaml:${index + 1}:${
            line
              .split("¶")
              .slice(0, mark + 1)
              .join("").length + 1
          }`,
      ),
  );
  return { text: text.replaceAll("¶", ""), places };
}

const placesOf = (text: string) => faults({ "a.yaml": text }).map((fault) => fault.split(": ")[0]);

describe("a planted fault", () => {
  it("is not reported in a sound file", () => {
    expect(placesOf(sound)).toEqual([]);
  });

  it.each(Object.keys(plants))("is reported at its position: %s", (name) => {
    const { text, places } = planted([name]);
    expect(places.length).toBeGreaterThan(0);
    expect(placesOf(text)).toEqual(places);
  });

  it("is reported together with any others, and nothing else", () => {
    fc.assert(
      fc.property(fc.subarray(Object.keys(plants), { minLength: 2 }), (names) => {
        const { text, places } = planted(names);
        expect(placesOf(text)).toEqual(places);
      }),
      { numRuns: runs(150) },
    );
  });

  it("is reported with what to write instead", () => {
    const { text } = planted(Object.keys(plants));
    for (const fault of faults({ "a.yaml": text })) {
      expect(fault).toMatch(/write|did you mean|valid names are|keep one|leave|state|name a group/);
    }
  });
});
