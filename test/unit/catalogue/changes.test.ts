import { describe, expect, it } from "vitest";
import { buildCatalogue } from "../../../src/catalogue/build.ts";
import { formatFault } from "../../../src/core/fault.ts";
import { formatRate, formatUsd } from "../../../src/core/money.ts";
import type { PriceVersion } from "../../../src/core/price.ts";
import type { TokenClass } from "../../../src/core/usage.ts";
import { catalogueOf, faults, layer, today } from "../../support/example-catalogue.ts";

const shipped = `groups: { half: { fraction: "0.5" }, third: { fraction: "0.3" } }
provider: example
models:
  gpt-4o:
    group: half
    aliases: [chat-4o]
    context_tokens: 1000
    max_output_tokens: 100
    prices:
      - from: 2026-01-01
        source: "a list"
        official: { input: "2", cached_input: "1", output: "10" }
        gateway: { audio_input: "7" }
        tiers: [{ from_prompt_tokens: 200, official: { input: "4", output: "20" } }]
        service_tiers: { flex: { official: { input: "1", output: "5" } } }
        fees: { web_search_call: { usd: "0.01", input_tokens: 5 } }
  claude-1:
    group: half
    tokenizer: o200k_base
    context_tokens: 1000
    max_output_tokens: 100
    prices: [{ from: 2026-01-01, source: "a list", official: { input: "3", output: "15" } }]
  flat:
    group: half
    context_tokens: 1000
    max_output_tokens: 100
    prices: [{ from: 2026-01-01, source: "a list", per_request: { official: "0.04" } }]
  ended:
    group: half
    context_tokens: 1000
    max_output_tokens: 100
    prices: [{ from: 2026-01-01, until: 2026-06-01, source: "a list", official: { input: "3", output: "15" } }]
  job:
    group: half
    tasks: { "*": [{ from: 2026-01-01, source: "a list", official: "0.2", gateway: "0.1" }] }
`;
/** First fields of a change that states amounts. */
const dated = 'from: 2026-07-01, source: "our contract"';

/** Returns a model's price on a day, with these files of the user. */
function priceOf(name: string, day: string, ...mine: readonly string[]): PriceVersion {
  const files = Object.fromEntries(mine.map((text, index) => [`mine-${index}.yaml`, text]));
  const price = catalogueOf({ "shipped.yaml": shipped }, files).find(name, Date.parse(day))?.price;
  if (price == null) throw new Error("the model has no price");
  return price.version;
}

/** Returns charged rates of a model after these files of the user. */
function charged(name: string, classes: readonly TokenClass[], ...mine: readonly string[]): string[] {
  const { tiers } = priceOf(name, "2026-08-01", ...mine);
  return classes.map((each) => formatRate(tiers[0].charged[each]));
}

/** Returns the file with the change of one model. */
function changeOf(models: string, change: string): string {
  return `models: { "${models}": { change: { ${change} } } }\n`;
}

/** Returns the text without marks, and the positions of the marks `¶`. */
function marked(file: string, text: string): { readonly text: string; readonly places: readonly string[] } {
  const places = text.split("\n").flatMap((line, index) => {
    const parts = line.split("¶");
    return parts.slice(1).map((_, mark) => `${file}:${index + 1}:${parts.slice(0, mark + 1).join("").length + 1}`);
  });
  return { text: text.replaceAll("¶", ""), places };
}

describe("a change with a fault is reported at the value, with what to write:", () => {
  it.each<readonly [what: string, text: string, ...messages: string[]]>([
    ["no field", "models: { gpt-4o: { ¶change: {} } }", "states nothing; write a field, or leave it out"],
    ["no change", "models: { gpt-4o: { ¶changes: [] } }", "states nothing; write a change, or leave it out"],
    ["a group without a field", "groups: { ¶mine: {} }", "states nothing; write a field, or leave it out"],
    ["a gateway without a field", "¶gateway: {}", "states nothing; write a field, or leave it out"],
    ["an empty minimum", changeOf("gpt-4o", `${dated}, ¶minimum: {}`), "states nothing; write tokens, usd or both"],
    [
      "an empty minimum of the gateway, which would remove another one",
      "gateway: { ¶minimum: {} }",
      "states nothing; write tokens, usd or both",
    ],
    [
      "an empty fee",
      changeOf("gpt-4o", `${dated}, fees: { ¶web_search_call: {} }`),
      'states nothing; write a field, or leave "web_search_call" out',
    ],
    [
      "rates without a class",
      changeOf("gpt-4o", `${dated}, ¶official: {}`),
      'states nothing; write a field, or leave "official" out',
    ],
    [
      "rates without a class in a tier and in a service tier",
      changeOf(
        "gpt-4o",
        `${dated}, tiers: [{ from_prompt_tokens: 200, ¶official: {} }], service_tiers: { flex: { ¶gateway: {} } }`,
      ),
      'states nothing; write a field, or leave "official" out',
      'states nothing; write a field, or leave "gateway" out',
    ],
    [
      "a tier without rates",
      changeOf("gpt-4o", `${dated}, tiers: [¶{ from_prompt_tokens: 200 }]`),
      "states nothing; write official, gateway, or remove: true",
    ],
    [
      "a tier stated twice",
      changeOf(
        "gpt-4o",
        `${dated}, tiers: [{ from_prompt_tokens: 200, official: { input: "5" } }, { from_prompt_tokens: ¶200, official: { output: "6" } }]`,
      ),
      "is 200 for a second time; keep one of them",
    ],
    [
      "a tier that is removed and changed",
      changeOf("gpt-4o", `${dated}, tiers: [{ from_prompt_tokens: 200, remove: true, ¶gateway: { input: "5" } }]`),
      'has no meaning next to remove; leave "gateway" out',
    ],
    [
      "a tier that does not exist",
      changeOf("gpt-4o", `${dated}, tiers: [{ from_prompt_tokens: ¶201, official: { input: "5" } }]`),
      'no tier of "gpt-4o" begins at 201 (tiers: 200); write that number, or official input and output to add a tier',
    ],
    [
      "the removal of a tier that does not exist",
      changeOf("claude-1", `${dated}, tiers: [{ from_prompt_tokens: ¶201, remove: true }]`),
      'no tier of "claude-1" begins at 201 (tiers: none); write that number',
    ],
    [
      "a service tier that does not exist",
      changeOf("claude-1", `${dated}, service_tiers: { ¶flex: { gateway: { input: "1" } } }`),
      '"claude-1" has no service tier "flex"; write its official input and output to add it',
    ],
    [
      "a price per request of a model with rates",
      changeOf("gpt-4o", `${dated}, ¶per_request: { official: "1" }`),
      '"gpt-4o" has rates, not a price per request; state the model as a whole',
    ],
    [
      "rates of a model with a price per request",
      changeOf("flat", `${dated}, ¶official: { input: "1" }, cache_write: ¶official, minimum: { tokens: ¶4 }`),
      '"flat" has a price per request; write per_request',
      '"flat" has a price per request, without rates of cached tokens; leave it out',
      '"flat" has no price of tokens, so that a minimum of tokens does not apply; write usd',
    ],
    [
      "a minimum of a model with only prices of tasks",
      changeOf("job", `${dated}, ¶minimum: { usd: "1" }`),
      '"job" has prices of tasks, of which only the fraction can change; state them in the model',
    ],
    [
      "a change after the end of the last price",
      `models: { ended: { ¶change: { ${dated}, official: { input: "1" } } } }`,
      'no price of "ended" is in force from 2026-07-01; write other days, or state the model as a whole',
    ],
    [
      "a change by pattern before all prices",
      'models: { "*": { ¶change: { from: 2025-01-01, until: 2025-02-01, source: "x", fraction: "1" } } }',
      'no price of a model that "*" matches is in force from 2025-01-01 until 2025-02-01; write other days, or state the model as a whole',
    ],
    [
      "a mistyped id",
      `models: { gpt-4oo: { ¶change: { ${dated}, official: { input: "1" } } } }`,
      '"gpt-4oo" names no model to change; did you mean "gpt-4o"?',
    ],
    [
      "an unknown id",
      "models: { nothing-like-it: { ¶change: { context_tokens: 5 } } }",
      '"nothing-like-it" names no model to change; `farebox prices list` shows the ids',
    ],
    [
      "the price of unknown models",
      "models: { default: { ¶change: { context_tokens: 5 } } }",
      '"default" names no model to change; `farebox prices list` shows the ids',
    ],
    ...["chat-4o", "GPT-4o", "gpt-4o-2024-11-20", "openai/gpt-4o", "OpenAI/Chat-4o", "own-4o"].map(
      (name) =>
        [
          `the name ${name} in place of the id`,
          `models:\n  gpt-4o: { change: { aliases: [own-4o] } }\n  ${name}: { ¶change: { context_tokens: 5 } }`,
          `"${name}" is another name of model "gpt-4o"; write gpt-4o`,
        ] as const,
    ),
    [
      "a mistyped pattern",
      'models: { "claud3-*": { ¶change: { context_tokens: 5 } } }',
      '"claud3-*" matches no model; did you mean "claude-*"?',
    ],
    [
      "a pattern that matches nothing",
      'models: { "*-foo": { ¶change: { context_tokens: 5 } } }',
      '"*-foo" matches no model; `farebox prices list` shows the ids',
    ],
    [
      "a pattern that matches only another name",
      'models: { "chat-4*": { ¶change: { context_tokens: 5 } } }',
      '"chat-4*" matches no model; `farebox prices list` shows the ids',
    ],
    [
      "a pattern without a change",
      'models: { ¶"gpt-*": { group: half } }',
      "a pattern can only change models; write the model's id",
    ],
    [
      "aliases of a pattern",
      'models: { "gpt-*": { change: { ¶aliases: [x] } } }',
      "a pattern cannot add aliases; write the model's id",
    ],
    [
      "an amount without a day and a source",
      'models: { gpt-4o: { ¶¶change: { official: { input: "1" } } } }',
      '"from" is missing; write the first UTC day of the change, so that earlier days keep their price',
      '"source" is missing; write where the amounts come from, such as "our contract"',
    ],
    [
      "a mistyped field, whose absence is not reported too",
      'models: { gpt-4o: { change: { ¶form: 2026-01-01, source: "x", official: { input: "1" } } } }',
      'unknown field "form"; did you mean "from"?',
    ],
    [
      "an end that is not after the start",
      changeOf("gpt-4o", `${dated}, until: ¶2026-07-01, official: { input: "1" }`),
      "ends on 2026-07-01, not after its start on 2026-07-01; write a later day or leave it out",
    ],
    [
      "changes out of order",
      `models: { gpt-4o: { changes: [{ ${dated}, official: { input: "1" } }, { from: ¶2026-06-30, source: "x", official: { output: "1" } }] } }`,
      "begins on 2026-06-30, before the change above it; write changes in the order of their `from`",
    ],
    [
      "a change without a day after another one",
      `models: { gpt-4o: { changes: [{ ${dated}, official: { input: "1" } }, ¶{ context_tokens: 5 }] } }`,
      "has no `from`, so that it begins before the change above it; write changes in the order of their `from`",
    ],
    [
      "a change next to changes",
      "models: { gpt-4o: { change: { context_tokens: 5 }, ¶changes: [{ max_output_tokens: 6 }] } }",
      '"change" cannot be next to "changes"; write all changes in `changes`',
    ],
    [
      "a change next to a price",
      "models: { gpt-4o: { change: { context_tokens: 5 }, ¶prices: [] } }",
      '"change" cannot be next to "prices"; a model is either changed or stated as a whole',
    ],
    [
      "another unit",
      "models: { gpt-4o: { change: { ¶unit: second } } }",
      'unknown field "unit"; did you mean "until"?',
    ],
    [
      "a fee that no model has",
      changeOf("gpt-4o", `${dated}, fees: { ¶x_call: { usd: "1" } }`),
      'no model here has the fee "x_call"; write usd and input_tokens to add it',
    ],
    [
      "a fee of the gateway that no model has",
      'gateway: { fees: { ¶x_call: { usd: "1" } } }',
      'no model here has the fee "x_call"; write usd and input_tokens to add it',
    ],
    [
      "an unknown word for cached tokens",
      "gateway: { cached_input: ¶cheap }",
      '"cached_input" is cheap; write official, input, or a decimal string in quotes, USD per 1M tokens, such as "0.60"',
    ],
    [
      "a number for cached tokens",
      "gateway: { cached_input: ¶0.6 }",
      'write it in quotes, "0.6": official, input, or a decimal string in quotes, USD per 1M tokens, such as "0.60"',
    ],
    [
      "an unknown group",
      "models: { gpt-4o: { change: { group: ¶hafl } } }",
      'unknown group "hafl"; did you mean "half"?',
    ],
    [
      "a rate next to its block",
      changeOf("gpt-4o", `${dated}, ¶input: "1"`),
      'unknown field "input"; write it under `gateway` for what the gateway charges, or under `official`',
    ],
    [
      "a rate of a model without a change, and nothing about a whole model",
      'models: { gpt-4o: { ¶gateway: { input: "1" } } }',
      'unknown field "gateway"; write it under `change`, or under `prices` of a whole model',
    ],
    [
      "a fraction among rates",
      changeOf("gpt-4o", `${dated}, gateway: { ¶fraction: "1" }`),
      'unknown field "fraction"; write it next to this block of rates, or in a group',
    ],
    [
      "a pattern without quotes, once",
      "models:\n  *-mini¶: { change: { group: half } }\n",
      "not YAML: write a name that begins with * in quotes",
    ],
    [
      "a change of a group",
      'groups: { half: { ¶change: { fraction: "1" } } }',
      'unknown field "change"; write its fields here, without `change`',
    ],
    [
      "a rate of the gateway",
      'gateway: { ¶input: "1" }',
      'unknown field "input"; write a fraction here, or the rate in a change of a model',
    ],
    [
      "a day of a group",
      'groups: { half: { fraction: "1", ¶from: 2026-12-01 } }',
      'unknown field "from"; this block applies to all days; to date it, assign a group in a change with `from`',
    ],
    [
      "a field of the gateway next to it",
      'gateway: { fraction: "1" }\n¶cached_input: official',
      'unknown field "cached_input"; write it under `gateway` for all models, or under a group',
    ],
    [
      "the beginning of a field's name",
      "gateway: { ¶cached: official }",
      'unknown field "cached"; did you mean "cached_input"?',
    ],
    [
      "a date of another form",
      "models: { gpt-4o: { change: { from: ¶01.12.2026, streams: live } } }",
      '"from" is 01.12.2026; write a UTC day that exists, such as 2026-08-21',
    ],
    [
      "an empty value",
      "¶gateway:",
      '"gateway" is empty; write a block of the fields fraction, minimum, cached_input, cache_write, cache_write_1h, fees',
    ],
    [
      "a long value, which is cut",
      `gateway: { fraction: ¶"${"x".repeat(41)}" }`,
      `"fraction" is "${"x".repeat(40)}…"; write a decimal string in quotes, the share of the official price, such as "0.75"`,
    ],
    ["no group", "models: { gpt-4o: { change: { group: ¶null } } }", '"group" is null; write the name of a group'],
    [
      "a factor for models with a public tokenizer",
      'models: { "claude-*": { change: { error_factor: ¶"2" } } }',
      "is only for models whose tokenizer is not published; leave it out, or write `tokenizer: null`",
    ],
    [
      "a rule for images without a bound",
      "models: { gpt-4o: { change: { ¶image_tokens: { base: 85, tile: 170 } } } }",
      "can count 1445 tokens, but image_part_tokens is missing; write 1445 or more there",
    ],
    [
      "a rule for images above the bound",
      "models: { gpt-4o: { change: { image_tokens: { base: 85, tile: 170 }, image_part_tokens: ¶5 } } }",
      "is below the most that image_tokens can count; write 1445 or more",
    ],
  ])("%s", (_, text, ...messages) => {
    const { text: mine, places } = marked("mine.yaml", text);
    const expected = messages.map((message, index) => `${places[index]}: ${message}`);
    expect(faults({ "shipped.yaml": shipped }, { "mine.yaml": mine })).toEqual(expected);
  });
});

/** Returns the faults of these files of the user. */
function faultsWith(mine: Readonly<Record<string, string>>): string[] {
  return faults({ "shipped.yaml": shipped }, mine);
}

describe("files that state the same", () => {
  const first = changeOf("gpt-4o", `${dated}, gateway: { input: "1" }, context_tokens: 5`);

  it("are a fault for a figure from the same day, not for another figure or another day", () => {
    const other = (change: string) => faultsWith({ "a.yaml": first, "b.yaml": changeOf("gpt-4o", change) });
    expect(other(`${dated}, gateway: { input: "2" }`)).toEqual([
      'b.yaml:1:93: gateway.input of "gpt-4o" is already changed from the same day in a.yaml, line 1; keep one of them',
    ]);
    expect(other(`${dated}, gateway: { output: "2" }`)).toEqual([]);
    expect(other('from: 2026-07-02, source: "x", gateway: { input: "2" }')).toEqual([]);
  });

  it("are a fault for a property without a day", () => {
    const mine = { "a.yaml": changeOf("gpt-4o", "reasoning: true"), "b.yaml": changeOf("gpt-4o", "reasoning: false") };
    expect(faultsWith(mine)).toEqual([
      'b.yaml:1:44: reasoning of "gpt-4o" is already changed in a.yaml, line 1; keep one of them',
    ]);
  });

  it("are a fault for equally long patterns that match one model", () => {
    const mine = [
      `models:\n  "gpt*": { change: { ${dated}, cached_input: official } }`,
      `  "g*4o": { change: { ${dated}, cached_input: official } }`,
      `  "*4o": { change: { ${dated}, cached_input: input } }`,
    ].join("\n");
    expect(faultsWith({ "a.yaml": mine })).toEqual([
      'a.yaml:3:79: cached_input of "gpt-4o" is already changed from the same day in a.yaml, line 2; keep one of them',
    ]);
  });

  it("are a fault if their order would decide whether an amount counts", () => {
    const both = (one: string, two: string) =>
      faultsWith({
        "a.yaml": changeOf("gpt-4o", `${dated}, ${one}`),
        "b.yaml": changeOf("gpt-4o", `${dated}, ${two}`),
      });
    const fraction = 'fraction: "0.6"';
    const advice = "which is changed from the same day in a.yaml, line 1; write both in one change";
    expect(both(fraction, 'gateway: { input: "2" }')).toEqual([
      expect.stringContaining(`gateway.input of "gpt-4o" contradicts fraction, ${advice}`),
    ]);
    expect(both('service_tiers: { flex: { gateway: { input: "2" } } }', fraction)).toEqual([
      expect.stringContaining(`fraction of "gpt-4o" contradicts service_tiers.flex.gateway.input, ${advice}`),
    ]);
    expect(both('gateway: { cached_input: "2" }', "cached_input: official")).toEqual([
      expect.stringContaining(`cached_input of "gpt-4o" contradicts gateway.cached_input, ${advice}`),
    ]);
    expect(both(fraction, 'cached_input: "2"')).toHaveLength(1);
    expect(both(fraction, "cached_input: official")).toEqual([]);
    expect(both(fraction, 'official: { input: "2" }')).toEqual([]);
    expect(both('tiers: [{ from_prompt_tokens: 200, gateway: { input: "1" } }]', fraction)).toEqual([]);
  });

  it("are a fault for two gateways and two groups", () => {
    expect(faultsWith({ "a.yaml": 'gateway: { fraction: "1" }', "b.yaml": 'gateway: { fraction: "1" }' })).toEqual([
      'b.yaml:1:1: "gateway" is already in a.yaml, line 1; keep one of them',
    ]);
    expect(
      faultsWith({
        "a.yaml": 'groups: { half: { fraction: "1" } }',
        "b.yaml": "groups: { half: { cached_input: input } }",
      }),
    ).toEqual(['b.yaml:1:11: group "half" is already in a.yaml; keep one of them']);
  });
});

describe("a fault has no consequential faults", () => {
  const own = (price: string, more = "") =>
    `provider: mine\nmodels:\n  own: { group: half, context_tokens: 1, max_output_tokens: 1, prices: [${price}]${more} }\n`;
  const change = `  "own*": { change: { ${dated}, tiers: [{ from_prompt_tokens: 5, gateway: { input: "1" } }], fees: { y_call: { usd: "1" } } } }\n`;

  it.each<[string, string, string]>([
    ["a price that is not a block", own("¶soon"), "item 1 is soon; write a block of the fields"],
    ["a price without a day", own('¶{ source: "x", official: { input: "1", output: "1" } }'), '"from" is missing'],
    [
      "a faulty tier",
      own('{ from: 2026-01-01, source: "x", official: { input: "1", output: "1" }, tiers: [¶no] }'),
      "item 1 is no; write a block of the fields",
    ],
    [
      "a mistyped field",
      own('{ from: 2026-01-01, source: "x", official: { input: "1", output: "1" }, ¶fess: {} }'),
      'unknown field "fess"; did you mean "fees"?',
    ],
    ["a removed model", "provider: mine\nmodels:\n  own: ¶soon\n", '"own" is soon; write a block'],
  ])("for a change of a model with %s", (_, text, message) => {
    const { text: mine, places } = marked("mine.yaml", `${text}${change}`);
    expect(faultsWith({ "mine.yaml": mine })).toEqual([expect.stringContaining(`${places[0]}: ${message}`)]);
  });

  it("for a change with a fault of its own", () => {
    expect(faultsWith({ "mine.yaml": "models: { own-model: { change: cheap } }" })).toHaveLength(1);
    expect(faultsWith({ "mine.yaml": "models: { gpt-4o: { changes: [cheap] } }" })).toHaveLength(1);
    expect(faultsWith({ "mine.yaml": changeOf("gpt-4o", `${dated}, official: cheap`) })).toHaveLength(1);
    expect(faultsWith({ "mine.yaml": changeOf("gpt-4o", `${dated}, official: { input: 1 }`) })).toHaveLength(1);
  });

  it("for a change of a model in a file that could not be read", () => {
    const unread = { file: "theirs.yaml", line: 1, column: 1, message: "cannot be read" };
    const built = buildCatalogue(
      [[{ name: "shipped.yaml", text: shipped }], layer({ "mine.yaml": changeOf("theirs", "context_tokens: 5") })],
      [unread],
    );
    expect(built.ok ? [] : built.faults.map(formatFault)).toEqual([formatFault(unread)]);
  });
});

describe("a share that is not exact", () => {
  const third = 'groups: { half: { fraction: "0.333333" } }\n';
  const odd = shipped.replaceAll('input: "3"', 'input: "0.01"').replace('input: "2"', 'input: "0.01"');

  it("is one fault at the share of the user, not at each shipped rate", () => {
    expect(faults({ "shipped.yaml": odd }, { "mine.yaml": third })).toEqual([
      "mine.yaml:1:29: 0.333333 of 0.01 cannot be represented exactly (3 models, the first is gpt-4o); state a rate or another share",
    ]);
  });

  it("is a fault at the share of a change, with the model", () => {
    expect(
      faults(
        { "shipped.yaml": odd },
        { "mine.yaml": changeOf("ended", 'from: 2026-02-01, source: "x", fraction: "0.333333"') },
      ),
    ).toEqual([
      "mine.yaml:1:73: 0.333333 of 0.01 cannot be represented exactly (ended); state a rate or another share",
    ]);
  });

  it("is a fault at a rate of the user", () => {
    const mine = changeOf("gpt-4o", `${dated}, fraction: "0.333333", official: { input: "0.01" }`);
    expect(faultsWith({ "mine.yaml": mine })).toEqual([
      "mine.yaml:1:116: 0.333333 of 0.01 (change) cannot be represented exactly; state the rate under gateway",
    ]);
  });
});

describe("a change", () => {
  it("changes only the stated figures, from its day on and until its end", () => {
    const mine = changeOf("gpt-4o", `${dated}, until: 2026-09-01, gateway: { output: "4" }`);
    const before = priceOf("gpt-4o", "2026-06-30");
    for (const day of ["2026-06-30", "2026-09-01"]) {
      const { from, until, ...rest } = priceOf("gpt-4o", day, mine);
      expect(rest).toEqual({ ...before, from: undefined, until: undefined });
      expect([from, until]).toEqual(day === "2026-06-30" ? ["2026-01-01", "2026-07-01"] : ["2026-09-01", null]);
    }
    const during = priceOf("gpt-4o", "2026-07-01", mine);
    expect(during).toMatchObject({ from: "2026-07-01", until: "2026-09-01", source: "our contract; otherwise a list" });
    expect(charged("gpt-4o", ["input", "output", "audio_input"], mine)).toEqual(["1.00", "4.00", "7.00"]);
    expect(during.tiers[1]).toEqual(before.tiers[1]);
  });

  it("changes, adds and removes tiers, also of a service tier", () => {
    const higher = '{ from_prompt_tokens: 300, official: { input: "6", output: "30" }, gateway: { output: "11" } }';
    const mine = changeOf(
      "gpt-4o",
      `${dated}, tiers: [${higher}, { from_prompt_tokens: 100, official: { input: "3", output: "15" } }, { from_prompt_tokens: 200, remove: true }], service_tiers: { flex: { gateway: { input: "0.1" } }, priority: { official: { input: "9", output: "19" }, tiers: [${higher}] } }`,
    );
    const { tiers, serviceTiers } = priceOf("gpt-4o", "2026-07-01", mine);
    const starts = (list: PriceVersion["tiers"] | undefined) =>
      list?.map(({ fromPromptTokens, charged: own }) => [
        fromPromptTokens,
        formatRate(own.input),
        formatRate(own.output),
      ]);
    expect(starts(tiers)).toEqual([
      [0, "1.00", "5.00"],
      [100, "1.50", "7.50"],
      [300, "3.00", "11.00"],
    ]);
    expect(starts(serviceTiers?.priority)).toEqual([
      [0, "4.50", "9.50"],
      [300, "3.00", "11.00"],
    ]);
    expect(starts(serviceTiers?.flex)).toEqual([[0, "0.10", "2.50"]]);
  });

  it("does not hide that the tiers of a model are out of order", () => {
    const tier = (from: string) => `{ from_prompt_tokens: ${from}, official: { input: "1", output: "1" } }`;
    const { text, places } = marked(
      "a.yaml",
      `provider: mine\nmodels: { own: { group: half, context_tokens: 1, max_output_tokens: 1, prices: [{ from: 2026-07-01, source: "x", official: { input: "1", output: "1" }, tiers: [${tier("20")}, ${tier("¶10")}] }] } }`,
    );
    expect(faultsWith({ "a.yaml": text, "b.yaml": changeOf("own", `${dated}, tiers: [${tier("30")}]`) })).toEqual([
      `${places[0]}: is 10, not above the tier before it, 20; write tiers in ascending order`,
    ]);
  });

  it("changes a price per request, a part of a fee, and adds a fee", () => {
    expect(
      priceOf("flat", "2026-07-01", changeOf("flat", `${dated}, per_request: { gateway: "0.03" }`)).perRequest,
    ).toEqual({
      charged: 30_000_000_000n,
      list: 40_000_000_000n,
    });
    const fees = (stated: string) =>
      Object.entries(priceOf("gpt-4o", "2026-07-01", changeOf("gpt-4o", `${dated}, fees: ${stated}`)).fees ?? {}).map(
        ([name, fee]) => [name, formatUsd(fee.charged), formatUsd(fee.list), fee.inputTokens],
      );
    expect(fees('{ web_search_call: { gateway: "0.02" } }')).toEqual([["web_search_call", "0.02", "0.01", 5]]);
    expect(fees('{ file_search_call: { usd: "0.5", input_tokens: 7 } }')).toEqual([
      ["web_search_call", "0.005", "0.01", 5],
      ["file_search_call", "0.25", "0.50", 7],
    ]);
  });

  it("by pattern covers spellings of ids, and what does not fit a model leaves it as it is", () => {
    const mine = changeOf("GPT-*", `${dated}, gateway: { input: "9" }`);
    expect(charged("gpt-4o", ["input"], mine)).toEqual(["9.00"]);
    const all = changeOf(
      "*",
      `${dated}, tiers: [{ from_prompt_tokens: 200, gateway: { input: "8" } }], service_tiers: { flex: { gateway: { input: "7" } } }`,
    );
    expect(priceOf("gpt-4o", "2026-07-01", all).tiers[1]?.charged.input).toBe(8_000_000n);
    expect(priceOf("claude-1", "2026-07-01", all)).toMatchObject({ source: "a list", from: "2026-07-01" });
    expect(priceOf("flat", "2026-07-01", all).perRequest).toEqual(priceOf("flat", "2026-07-01").perRequest);
  });

  it("ranks a longer pattern above a shorter one, an id above both, and a later day above an earlier one", () => {
    const mine = `models:
  gpt-4o: { changes: [{ from: 2026-02-01, source: "x", gateway: { input: "1" } }, { from: 2026-03-01, source: "y", gateway: { output: "2" } }] }
  "gpt-*": { change: { from: 2026-04-01, source: "z", gateway: { input: "3", output: "3", cache_write: "3" } } }
  "g*": { change: { from: 2026-05-01, source: "w", gateway: { input: "4", cache_write: "4", reasoning: "4" } } }
`;
    expect(charged("gpt-4o", ["input", "output", "cache_write", "reasoning"], mine)).toEqual([
      "1.00",
      "2.00",
      "3.00",
      "4.00",
    ]);
    expect(priceOf("gpt-4o", "2026-06-01", mine).source).toBe("y; x; z; w; otherwise a list");
  });

  it("changes a model that another file of the user states as a whole, not one of a later layer", () => {
    const own = shipped.replace('output: "10" }', 'output: "100" }');
    const change = changeOf("gpt-4o", `${dated}, gateway: { input: "1.5" }`);
    expect(charged("gpt-4o", ["input", "output"], own, change)).toEqual(["1.50", "50.00"]);
    const below = catalogueOf({ "shipped.yaml": shipped }, { "preset.yaml": change }, { "mine.yaml": own });
    expect(below.find("gpt-4o", today)?.price?.version.tiers[0].charged.input).toBe(1_000_000n);
  });

  it("of properties needs no day; null is a value", () => {
    const mine = changeOf("claude-*", 'tokenizer: null, error_factor: "1.2", context_tokens: 77');
    const model = catalogueOf({ "shipped.yaml": shipped }, { "mine.yaml": mine }).find("claude-1", today);
    expect(model).toMatchObject({
      tokenizerIsPublic: false,
      errorFactor: 1200,
      contextTokens: 77,
      outputTokensMax: 100,
    });
    expect(priceOf("claude-1", "2026-07-01", mine)).toEqual(priceOf("claude-1", "2026-07-01"));
  });

  it("of properties by pattern applies where it has a meaning", () => {
    const mine = changeOf("*", 'error_factor: "2"');
    const catalogue = catalogueOf({ "shipped.yaml": shipped }, { "mine.yaml": mine });
    expect(catalogue.find("gpt-4o", today)?.errorFactor).toBe(2000);
    expect(catalogue.find("claude-1", today)?.errorFactor).toBe(1000);
  });

  it("adds names, which also find the model before its day", () => {
    const mine = changeOf("gpt-4o", `${dated}, aliases: [team-large], fraction: "1"`);
    const catalogue = catalogueOf({ "shipped.yaml": shipped }, { "mine.yaml": mine });
    for (const name of ["team-large", "chat-4o"])
      expect(catalogue.find(name, Date.parse("2026-02-01"))).toMatchObject({ id: "gpt-4o" });
  });
});

it("a figure that two patterns of one length change from the same day is one fault, at whatever number of models", () => {
  const mine = changeOf("*", `${dated}, fees: { web_search_call: { usd: "0.02" } }`);
  expect(faults({ "shipped.yaml": shipped }, { "a.yaml": mine, "b.yaml": mine })).toEqual([
    'b.yaml:1:102: fees.web_search_call.usd of "gpt-4o" is already changed from the same day in a.yaml, line 1; keep one of them',
  ]);
});

it("an amount of cached tokens leaves no fraction that all rates have", () => {
  const mine = (term: string) => changeOf("gpt-4o", `${dated}, fraction: "0.5", cached_input: ${term}`);
  const own = shipped.replace('        gateway: { audio_input: "7" }\n', "");
  const fractionOf = (term: string) =>
    catalogueOf({ "shipped.yaml": own }, { "mine.yaml": mine(term) }).find("gpt-4o", Date.parse("2026-07-01"))?.price
      ?.version.fraction;
  expect([fractionOf("official"), fractionOf('"0.6"')]).toEqual(["0.5", null]);
});

it("a change that states the tokenizer of a model with an error factor is no fault", () => {
  const own = shipped.replace("    tokenizer: o200k_base", '    error_factor: "1.2"');
  const mine = "models: { claude-1: { change: { tokenizer: o200k_base } } }";
  expect(faults({ "shipped.yaml": own }, { "mine.yaml": mine })).toEqual([]);
});

it("a group without a fraction, which a change of the same layer assigns, is a fault at the amount", () => {
  const mine = `groups: { own: { minimum: { usd: "0.005" } } }
provider: x
models:
  mine: { context_tokens: 9, max_output_tokens: 9, prices: [{ from: 2026-07-01, source: "x", official: { input: "2", output: "8" } }] }
  "min*": { change: { group: own } }
`;
  expect(faults({ "shipped.yaml": shipped }, { "mine.yaml": mine })).toEqual([
    "mine.yaml:4:113: no charged rate for input; name a group with a fraction, or state gateway.input",
  ]);
});

it("a tier whose rates are no block is not reported as a tier without rates", () => {
  const mine = changeOf("gpt-4o", `${dated}, tiers: [{ from_prompt_tokens: 200, gateway: 5 }]`);
  expect(faults({ "shipped.yaml": shipped }, { "mine.yaml": mine })).toEqual([
    expect.stringContaining('"gateway" is 5; write a block of the fields'),
  ]);
});

it("a fraction replaces the gateway's price of a request of a lower level", () => {
  const own = shipped.replace('{ official: "0.04" }', '{ official: "0.04", gateway: "0.039" }');
  const chargedBy = (mine: string) => {
    const price = catalogueOf({ "shipped.yaml": own }, { "mine.yaml": mine }).find(
      "flat",
      Date.parse("2026-07-01"),
    )?.price;
    return price?.version.perRequest && formatUsd(price.version.perRequest.charged);
  };
  expect(chargedBy("")).toBe("0.039");
  expect(chargedBy(changeOf("flat", `${dated}, fraction: "0.75"`))).toBe("0.03");
  expect(chargedBy('gateway: { fraction: "0.5" }')).toBe("0.02");
});

it("a class whose rate a change misspells is not reported as a class without a rate", () => {
  const own = `models: { own: { provider: x, context_tokens: 9, max_output_tokens: 9, prices: [{ from: 2026-07-01, source: "x", official: { input: "2", output: "8" }, gateway: { input: "1" } }] }`;
  const mine = (output: string) => `${own}, "ow*": { change: { ${dated}, gateway: { output: "${output}" } } } }`;
  expect(faults({ "shipped.yaml": shipped }, { "mine.yaml": mine("4") })).toEqual([]);
  expect(faults({ "shipped.yaml": shipped }, { "mine.yaml": mine("cheap") })).toEqual([
    expect.stringMatching(/^mine.yaml:1:\d+: "output" is "cheap"; write a decimal string/),
  ]);
});

it("a spelling of two models is not said to be another name of one of them", () => {
  const both = shipped.replace("  claude-1:", "  GPT-4o:");
  expect(faults({ "shipped.yaml": both }, { "mine.yaml": changeOf("Gpt-4o", "streams: live") })).toEqual([
    expect.stringMatching(/"Gpt-4o" names no model to change; did you mean "(gpt|GPT)-4o"\?$/),
  ]);
});

it("a rule for cached tokens among the rates says where it belongs", () => {
  const mine = changeOf("gpt-4o", `${dated}, gateway: { cached_input: official }`);
  expect(faults({ "shipped.yaml": shipped }, { "mine.yaml": mine })).toEqual([
    expect.stringContaining(
      '"cached_input" is official; write the word next to `gateway`, not in it, or a rate in quotes',
    ),
  ]);
});

it("a group without a fraction, which a change assigns to many models, is one fault at the change", () => {
  const mine = (more: string) =>
    `groups: { own: { minimum: { usd: "0.005" } } }\nmodels: { "*": { change: { group: own } } }\n${more}`;
  expect(faults({ "shipped.yaml": shipped }, { "mine.yaml": mine("") })).toEqual([
    'mine.yaml:2:35: group "own" states no fraction, which its models need; state one there or under `gateway`',
  ]);
  expect(faults({ "shipped.yaml": shipped }, { "mine.yaml": mine('gateway: { fraction: "1" }') })).toEqual([]);
});

describe("the price of a task", () => {
  const taskOf = (day: string, mine: string) =>
    catalogueOf({ "shipped.yaml": shipped }, { "mine.yaml": mine }).findTask("job", "any", Date.parse(day))?.price
      ?.version;

  it.each<[string, string, string, string]>([
    ["gateway", 'gateway: { fraction: "0.9" }', "0.18", "a list"],
    ["group", 'groups: { half: { fraction: "0.9" } }', "0.18", "a list"],
    ["change", changeOf("job", `${dated}, fraction: "0.9"`), "0.18", "our contract; otherwise a list"],
    ["change of the group", "models: { job: { change: { group: third } } }", "0.06", "a list"],
    ["change by pattern without a fraction", changeOf("*", `${dated}, minimum: { usd: "1" }`), "0.10", "a list"],
  ])("is the share of the %s, and names the source of the share", (_, mine, charge, source) => {
    const version = taskOf("2026-07-01", mine);
    expect(version).toMatchObject({ source, minimum: { tokens: 0, usd: 0n } });
    expect(version?.task && formatUsd(version.task.charged)).toBe(charge);
  });

  it("names the sources of several shares, the last one first, and no other source", () => {
    const changes = [
      `{ ${dated}, fraction: "0.9" }`,
      '{ from: 2026-07-02, source: "x", fraction: "0.8" }',
      '{ from: 2026-07-03, source: "y", minimum: { usd: "1" } }',
    ];
    const mine = `models: { job: { changes: [${changes.slice(0, 2).join(", ")}] }, "*": { change: ${changes[2]} } }`;
    expect(taskOf("2026-07-03", mine)?.source).toBe("x; our contract; otherwise a list");
  });

  it("stays before the day of a change", () => {
    const before = taskOf("2026-06-30", "");
    const after = taskOf("2026-06-30", changeOf("job", `${dated}, fraction: "0.9"`));
    expect(after).toEqual({ ...before, until: "2026-07-01" });
  });
});
