import { describe, expect, it } from "vitest";
import { faults, oneModel } from "../../support/example-catalogue.ts";

/** Returns the example with one text replaced. */
function changed(from: string, to: string): string {
  if (!oneModel.includes(from)) throw new Error(`not in the example: ${from}`);
  return oneModel.replace(from, to);
}

const official = '        official: { input: "2.00", output: "10.00" }\n';
const price = (from: string, more = "") =>
  `      - from: ${from}\n${more}        source: "a list"\n        official: { input: "2.00", output: "10.00" }\n`;

describe("a fault in a price file", () => {
  it("is not found in the example", () => {
    expect(faults({ "a.yaml": oneModel })).toEqual([]);
  });

  it.each<[string, string, string]>([
    [
      "a fee whose share is not exact",
      changed(official, `${official}        fees: { web_search_call: { usd: "0.000000000001", input_tokens: 1 } }\n`),
      'a.yaml:14:41: 0.5 of 0.000000000001 (group "half") cannot be represented exactly; state the rate under gateway',
    ],
    [
      "a fee of an unknown call",
      changed(official, `${official}        fees: { web_search: { usd: "0.01", input_tokens: 1 } }\n`),
      'a.yaml:14:17: "web_search" is not a valid name; write the type of the item in an answer, such as web_search_call',
    ],
    [
      "an unknown service tier",
      changed(official, `${official}        service_tiers: { prority: { official: { input: "1", output: "1" } } }\n`),
      'a.yaml:14:26: unknown field "prority"; did you mean "priority"?',
    ],
    [
      "a service tier's rate whose share is not exact",
      changed(
        official,
        `${official}        service_tiers: { flex: { official: { input: "0.000001", output: "1" } } }\n`,
      ),
      'a.yaml:14:53: 0.5 of 0.000001 (group "half") cannot be represented exactly; state the rate under gateway',
    ],
    [
      "a number in place of a decimal string",
      changed('input: "2.00"', "input: 2.00"),
      'a.yaml:13:28: write it in quotes, "2.00": a decimal string in quotes, USD per 1M tokens, such as "2.50"',
    ],
    [
      "a fraction as a number",
      changed('"0.5"', "0.50"),
      'a.yaml:2:21: write it in quotes, "0.50": a decimal string in quotes, the share of the official price, such as "0.75"',
    ],
    [
      "a malformed decimal",
      changed('"2.00"', '"2,00"'),
      'a.yaml:13:28: "input" is "2,00"; write a decimal string in quotes, USD per 1M tokens, such as "2.50"',
    ],
    [
      "too many decimals",
      changed('"2.00"', '"2.0000001"'),
      'a.yaml:13:28: "input" is "2.0000001"; write it with at most six decimals: a finer rate cannot be represented exactly',
    ],
    [
      "an implausibly high rate",
      changed('"2.00"', '"200000"'),
      'a.yaml:13:28: "input" is "200000"; write a rate of at most 10000 USD per 1M tokens',
    ],
    [
      "an unknown field with a similar name",
      changed("output:", 'output: "1", outptu:'),
      'a.yaml:13:49: unknown field "outptu"; did you mean "output"?',
    ],
    [
      "an unknown field of a model",
      changed("    tokenizer:", "    tokeniser:"),
      'a.yaml:7:5: unknown field "tokeniser"; did you mean "tokenizer"?',
    ],
    [
      "a time limit of tasks in seconds",
      changed("provider: example", "provider: example\ntask_minutes: { suno: 7200 }"),
      'a.yaml:4:23: "suno" is 7200; write a whole number of minutes without quotes, at most 1440, or null for no limit',
    ],
    [
      "a time limit of tasks as a text",
      changed("provider: example", 'provider: example\ntask_minutes: { suno: "15" }'),
      'a.yaml:4:23: "suno" is "15"; write a whole number of minutes without quotes, at most 1440, or null for no limit',
    ],
    [
      "a time limit of a name with several words",
      changed("provider: example", "provider: example\ntask_minutes: { Music-U: 15 }"),
      'a.yaml:4:17: "Music-U" is not a valid name; write one word of lower-case letters and digits, such as suno',
    ],
    [
      "an unknown field without a similar name",
      changed("provider: example", "provider: example\nzzz: 1"),
      'a.yaml:4:1: unknown field "zzz"; valid names are groups, gateway, task_units, task_minutes, routes, default, provider, defaults, models',
    ],
    [
      "a group that is no text, which leaves no rate without a fraction",
      changed("group: half", "group: 5"),
      'a.yaml:6:12: "group" is 5; write the name of a group',
    ],
    [
      "an unknown group",
      changed("group: half", "group: hafl"),
      'a.yaml:6:12: unknown group "hafl"; did you mean "half"?',
    ],
    [
      "a missing field",
      changed('        source: "a list"\n', ""),
      'a.yaml:11:9: "source" is missing; write a few words in quotes',
    ],
    [
      "a missing context",
      changed("    context_tokens: 1000\n", ""),
      'a.yaml:5:3: "context_tokens" is missing; write it here or in `defaults`',
    ],
    [
      "a quoted count",
      changed("context_tokens: 1000", 'context_tokens: "1000"'),
      'a.yaml:8:21: "context_tokens" is "1000"; write a whole number of tokens without quotes, such as 128000',
    ],
    [
      "a day that does not exist",
      changed("2026-01-01", "2026-02-30"),
      'a.yaml:11:15: "from" is 2026-02-30; write a UTC day that exists, such as 2026-08-21',
    ],
    [
      "an unknown tokenizer",
      changed("o200k_base", "p50k_base"),
      'a.yaml:7:16: "tokenizer" is p50k_base; write o200k_base, cl100k_base, or null if it is not published; did you mean "o200k_base"?',
    ],
    [
      "a factor below 1",
      changed("tokenizer: o200k_base", 'tokens_per_byte: "0.25"'),
      'a.yaml:7:22: "tokens_per_byte" is "0.25"; write a factor from "1" to "100": it widens a bound, it never narrows one',
    ],
    [
      "an error factor next to a tokenizer",
      changed("tokenizer: o200k_base", 'tokenizer: o200k_base\n    error_factor: "1.2"'),
      "a.yaml:8:19: is only for models whose tokenizer is not published; leave it out, or write `tokenizer: null`",
    ],
    [
      "an invalid name",
      changed("  half: {", "  Half Price: {").replace("group: half", "group: Half Price"),
      'a.yaml:2:3: "Half Price" is not a valid name; write a name of lower-case letters, digits and . _ -, at most 63 characters',
    ],
    [
      "an empty model",
      oneModel.slice(0, oneModel.indexOf("    group: half")),
      'a.yaml:5:3: "big" is empty; write a block of the fields provider, aliases, served_as, group, tokenizer, streams, error_factor, tokens_per_byte, context_tokens, max_output_tokens, max_output_field, image_part_tokens, image_tokens, prompt_form, audio_part_tokens, file_part_tokens, unit, images_only, reasoning, tokens_per_second, bills_server_errors, obeys_max_tool_calls, prices, tasks, change, changes',
    ],
    [
      "models without a provider",
      changed("provider: example\n", ""),
      'a.yaml:3:1: "provider" is missing next to models; write the family\'s name, such as openai',
    ],
    [
      "a share that is not exact",
      changed('"2.00"', '"0.000003"'),
      'a.yaml:13:28: 0.5 of 0.000003 (group "half") cannot be represented exactly; state the rate under gateway',
    ],
    [
      "no charged rate",
      changed("    group: half\n", ""),
      "a.yaml:12:28: no charged rate for input; name a group with a fraction, or state gateway.input",
    ],
    [
      "an entry without a price",
      changed(official, ""),
      "a.yaml:11:9: must have exactly one kind of price; write either `official` rates or `per_request`",
    ],
    [
      "an entry with two kinds of price",
      `${oneModel}        per_request: { official: "0.25" }\n`,
      "a.yaml:11:9: must have exactly one kind of price; write either `official` rates or `per_request`",
    ],
    [
      "tiers next to a flat price",
      changed(official, '        per_request: { official: "0.25" }\n        tiers: []\n'),
      'a.yaml:14:9: has no meaning next to per_request; leave "tiers" out',
    ],
    [
      "a share of a flat price that is not exact",
      changed(official, '        per_request: { official: "0.000000000001" }\n'),
      'a.yaml:13:34: 0.5 of 0.000000000001 (group "half") cannot be represented exactly; state the rate under gateway',
    ],
    [
      "images that can count more than their bound",
      changed(
        "tokenizer: o200k_base",
        "tokenizer: o200k_base\n    image_tokens: { base: 85, tile: 170 }\n    image_part_tokens: 765",
      ),
      "a.yaml:9:24: is below the most that image_tokens can count; write 1445 or more",
    ],
    [
      "images without a bound",
      changed("tokenizer: o200k_base", "tokenizer: o200k_base\n    image_tokens: { base: 85, tile: 170 }"),
      "a.yaml:8:5: can count 1445 tokens, but image_part_tokens is missing; write it here or in `defaults`",
    ],
    [
      "aliases of the default price",
      changed("groups:", "default: { aliases: [x], context_tokens: 1, max_output_tokens: 1 }\ngroups:"),
      'a.yaml:1:12: unknown field "aliases"; valid names are group, tokenizer, streams, error_factor, tokens_per_byte, context_tokens, max_output_tokens, max_output_field, image_part_tokens, image_tokens, prompt_form, audio_part_tokens, file_part_tokens, unit, images_only, reasoning, tokens_per_second, bills_server_errors, obeys_max_tool_calls, prices',
    ],
    [
      "a group called default",
      changed("  half: {", '  default: { fraction: "1" }\n  half: {'),
      'a.yaml:2:3: "default" is reserved for charges of unknown models; use another name',
    ],
    [
      "a model called default",
      changed("  big:", "  default:"),
      'a.yaml:5:3: "default" is reserved for the price of unknown models; use another id',
    ],
  ])("is reported at its position, with what to write: %s", (_, text, expected) => {
    expect(faults({ "a.yaml": text })).toEqual([expected]);
  });
});

describe("faults of validity", () => {
  it.each<[string, string, string]>([
    [
      "a price that begins on the same day as the one above it",
      price("2026-01-01"),
      "a.yaml:14:15: begins on 2026-01-01, but the price above it begins on 2026-01-01; write them in ascending order",
    ],
    [
      "a price that begins before the one above it",
      price("2025-01-01"),
      "a.yaml:14:15: begins on 2025-01-01, but the price above it begins on 2026-01-01; write them in ascending order",
    ],
    [
      "an end before the start",
      price("2026-06-01", "        until: 2026-05-01\n"),
      "a.yaml:15:16: ends on 2026-05-01, not after its start on 2026-06-01; write a later day or leave it out",
    ],
  ])("include %s", (_, second, expected) => {
    expect(faults({ "a.yaml": oneModel + second })).toEqual([expected]);
  });

  it.each([
    ["2026-07-01", "overlaps the price above it, which ends on 2026-07-01"],
    ["2026-05-01", "leaves a gap after the price above it, which ends on 2026-05-01"],
  ])("include a first price that ends on %s: the second, from 2026-06-01, %s", (until, expected) => {
    const text = changed("from: 2026-01-01\n", `from: 2026-01-01\n        until: ${until}\n`) + price("2026-06-01");
    expect(faults({ "a.yaml": text })).toEqual([
      `a.yaml:15:15: ${expected}; leave that \`until\` out or write 2026-06-01 there`,
    ]);
  });
});

describe("faults of tiers", () => {
  const tiers = (...starts: number[]) =>
    `${oneModel}        tiers:\n${starts.map((from) => `          - { from_prompt_tokens: ${from}, official: { input: "4", output: "4" } }\n`).join("")}`;

  it("are reported at a tier that is not above the one before", () => {
    expect(faults({ "a.yaml": tiers(100, 100) })).toEqual([
      "a.yaml:16:35: is 100, not above the tier before it, 100; write tiers in ascending order",
    ]);
  });

  it("include a tier that begins at 0 tokens", () => {
    expect(faults({ "a.yaml": tiers(0) })).toEqual([
      'a.yaml:15:35: "from_prompt_tokens" is 0; write a whole number of tokens without quotes, such as 128000',
    ]);
  });
});

describe("faults of names", () => {
  it.each<[string, string, string]>([
    [
      "an id stated twice",
      `${oneModel}  big: {}\n`,
      'a.yaml:14:3: "big" is stated twice in one block; keep one of them',
    ],
    [
      "an alias that is an id",
      changed("    group: half", "    aliases: [big]\n    group: half"),
      'a.yaml:6:15: "big" already names this model; keep one of them',
    ],
    [
      "an alias stated twice",
      changed("    group: half", "    aliases: [x, x]\n    group: half"),
      'a.yaml:6:18: "x" already names this model; keep one of them',
    ],
  ])("include %s", (_, text, expected) => {
    expect(faults({ "a.yaml": text })).toEqual([expected]);
  });

  it("are found across the files of a layer", () => {
    const other = "provider: other\ndefaults: { context_tokens: 1, max_output_tokens: 1 }\nmodels:\n  big: {}\n";
    expect(faults({ "a.yaml": oneModel, "b.yaml": other })).toEqual([
      'b.yaml:4:3: model "big" is already in a.yaml; keep one of them',
    ]);
    const alias = other.replace("big: {}", "small: { aliases: [tiny, big] }");
    expect(faults({ "a.yaml": oneModel, "b.yaml": alias })).toEqual([
      'b.yaml:4:28: "big" already names model "big"; keep one of them',
    ]);
    const group = 'groups: { half: { fraction: "0.4" } }\n';
    expect(faults({ "a.yaml": oneModel, "b.yaml": group })).toEqual([
      'b.yaml:1:11: group "half" is already in a.yaml; keep one of them',
    ]);
  });
});

describe("faults of YAML", () => {
  it("include a syntax error, reported as not YAML", () => {
    const [fault, ...rest] = faults({ "a.yaml": 'groups:\n  half: { fraction: "0.5"\n' });
    expect(fault).toMatch(/^a\.yaml:\d+:\d+: not YAML: /);
    expect(rest.length).toBeLessThanOrEqual(1);
  });

  it("include a second document", () => {
    expect(faults({ "a.yaml": "default: null\n---\ndefault: null\n" })).toEqual([
      "a.yaml:2:1: a price file must contain one document; remove the `---` between them",
    ]);
  });

  it("include aliases that expand exponentially", () => {
    const bomb = [
      "a: &a [x, x, x, x, x, x, x, x, x, x]",
      ...["b", "c", "d", "e", "f", "g"].map((name, index) => {
        const before = String.fromCodePoint(97 + index);
        return `${name}: &${name} [${Array.from({ length: 10 }, () => `*${before}`).join(", ")}]`;
      }),
    ].join("\n");
    expect(faults({ "a.yaml": bomb })[0]).toMatch(/^a\.yaml:1:1: cannot be read as YAML: /);
  });

  it("include a file that is not a mapping", () => {
    expect(faults({ "a.yaml": "- a\n- b\n" })[0]).toMatch(
      /^a\.yaml:1:1: the file: write a block of the fields groups, /,
    );
  });

  it("do not include an empty file", () => {
    expect(faults({ "a.yaml": "# nothing yet\n", "b.yaml": oneModel })).toEqual([]);
  });
});

describe("all faults", () => {
  it("are reported together, in the order of files and lines", () => {
    const text = oneModel.replace('"2.00"', "2.00").replace("2026-01-01", "someday");
    const second = "provider: other\nmodels:\n  small:\n    group: none\n    context_tokens: 10\n    prices: []\n";
    expect(faults({ "a.yaml": text, "b.yaml": second }).map((fault) => fault.split(": ")[0])).toEqual([
      "a.yaml:11:15",
      "a.yaml:13:28",
      "b.yaml:3:3",
      "b.yaml:4:12",
    ]);
  });

  it("are found in spite of an unknown field", () => {
    const text = oneModel
      .replace("provider: example", "provider: example\nzzz: 1")
      .replace("group: half", "group: third");
    expect(faults({ "a.yaml": text }).map((fault) => fault.split(";")[0])).toEqual([
      'a.yaml:4:1: unknown field "zzz"',
      'a.yaml:7:12: unknown group "third"',
    ]);
  });

  it("omit unknown groups if the file that may define them cannot be read", () => {
    const models = oneModel.slice(oneModel.indexOf("provider"));
    const broken = faults({ "a.yaml": "groups: {", "b.yaml": models });
    expect(broken).toEqual([expect.stringMatching(/^a\.yaml:/)]);
  });
});
