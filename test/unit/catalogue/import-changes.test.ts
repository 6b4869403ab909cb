import { readdirSync, readFileSync } from "node:fs";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildCatalogue, type PriceText } from "../../../src/catalogue/build.ts";
import { decidedAt } from "../../../src/catalogue/explain.ts";
import { importPrices } from "../../../src/catalogue/import/import.ts";
import type { DecidedPrice } from "../../../src/catalogue/levels.ts";
import { formatFault } from "../../../src/core/fault.ts";
import { parseRate, parseUsd } from "../../../src/core/money.ts";
import { serviceTierNames } from "../../../src/core/rate-variants.ts";
import { statedClass, type TokenClass } from "../../../src/core/usage.ts";
import type { PriceImport } from "../../../src/ports/price-import.ts";
import { buildOnce } from "../../support/built-catalogues.ts";
import { pricing } from "../../support/example-catalogue.ts";

const day = "2026-12-01";

function imported(layers: readonly (readonly PriceText[])[], table: unknown, fromDate = day): PriceImport {
  const tables = [{ file: "data.json", text: JSON.stringify(table) }];
  const params = { tables, from: null, fromDate, today: day, providers: null, models: null, group: "official" };
  const result = importPrices(layers, { ...params, withNew: true }, buildOnce);
  if (!result.ok) throw new Error(result.problems.join("\n"));
  return result.imported;
}

function built(layers: readonly (readonly PriceText[])[]) {
  const result = buildCatalogue(layers);
  if (!result.ok) throw new Error(result.faults.map(formatFault).join("\n"));
  return result;
}

/** Returns the layers with one more file of the user. */
function withFile([shipped = [], own = []]: readonly (readonly PriceText[])[], { name, yaml }: PriceImport) {
  return [shipped, yaml === "" ? own : [...own, { name, text: yaml }]];
}

const rates = (text: string) => `official: { ${text.replaceAll(/([a-z_0-9]+) ([0-9.]+)/g, '$1: "$2"')} }`;

/** Returns a shipped file of model-a, with these lines in its price. */
const shippedWith = (lines: string) => [
  {
    name: "pricing/a.yaml",
    text: `groups: { official: { fraction: "1" } }
provider: openai
models:
  model-a:
    group: official
    context_tokens: 1000000
    max_output_tokens: 1000
    prices:
      - from: 2026-01-01
        source: "a list"
        ${rates("input 2.00, cached_input 0.20, output 8.00")}
${lines.replaceAll(/^/gm, "        ")}
`,
  },
];

const modelA = (prices: object, more: object = {}) => [
  { id: "openai", models: [{ id: "model-a", match: { equals: "model-a" }, prices, ...more }] },
];

/** Returns the official and the gateway's absolute rates of model-a by tier, as one text each. */
function tiersOn(layers: readonly (readonly PriceText[])[], at = day): string[] {
  const origin = built(layers).origins.models.get("model-a");
  const price = origin && decidedAt("model-a", origin, Date.parse(at))?.price;
  const words = (own: DecidedPrice["tiers"][number]["official"]) =>
    Object.entries(own).map(([name, { value }]) => `${name} ${value}`);
  return (price?.tiers ?? []).map(
    ({ from, official, gateway }) =>
      `${from?.value ?? 0}: ${[...words(official), ...words(gateway).map((text) => `gateway ${text}`)].join(", ")}`,
  );
}

describe("a tier whose beginning the table moves", () => {
  const tiered = (start: number, input: number) => ({
    input_mtok: { base: 2, tiers: [{ start, price: input }] },
    output_mtok: { base: 8, tiers: [{ start, price: 12 }] },
  });
  const layers = [
    shippedWith(`tiers:
  - from_prompt_tokens: 200001
    ${rates("input 4.00, cached_input 0.40, cache_write 5.00, output 12.00")}
    gateway: { cached_input: "0.35" }`),
    [],
  ];

  it("keeps the rates of every class that the table does not state, and the gateway's own", () => {
    const found = imported(layers, modelA(tiered(256_000, 4)));
    expect(found.yaml).toContain(`      tiers:
        - { from_prompt_tokens: 200001, remove: true }
        - { from_prompt_tokens: 256001, official: { input: "4.00", cached_input: "0.40", cache_write: "5.00", output: "12.00" }, gateway: { cached_input: "0.35" } }
`);
    expect(tiersOn(withFile(layers, found))).toEqual([
      "0: input 2.00, cached_input 0.20, output 8.00",
      "256001: input 4.00, cached_input 0.40, cache_write 5.00, output 12.00, gateway cached_input 0.35",
    ]);
    expect(imported(withFile(layers, found), modelA(tiered(256_000, 4)))).toMatchObject({
      unchanged: 1,
      yaml: "",
    });
  });

  it("can move again on a later day, but not on the same day", () => {
    const moved = withFile(layers, imported(layers, modelA(tiered(256_000, 4))));
    const again = modelA(tiered(300_000, 5));
    expect(imported(moved, again)).toMatchObject({
      left_out: [
        {
          model: "model-a",
          why: "imported-2026-12-01.yaml already changes tiers from 2026-12-01; give a later --from-date",
        },
      ],
      yaml: "",
    });
    const later = withFile(moved, imported(moved, again, "2026-12-02"));
    expect(tiersOn(later, "2026-12-02")[1]).toBe(
      "300001: input 5.00, cached_input 0.40, cache_write 5.00, output 12.00, gateway cached_input 0.35",
    );
    expect(tiersOn(later)).toEqual(tiersOn(moved));
  });

  it.each([
    ["has fewer tiers", { input_mtok: 2, output_mtok: 8 }, "its tiers differ in number; state them yourself"],
    [
      "has more tiers at other sizes",
      {
        input_mtok: { base: 2, tiers: [128_000, 256_000].map((start) => ({ start, price: 4 })) },
        output_mtok: 8,
      },
      "its tiers differ in number; state them yourself",
    ],
    [
      "has a new tier without a class that the tier below has",
      {
        input_mtok: { base: 2, tiers: [200_000, 500_000].map((start) => ({ start, price: 4 })) },
        output_mtok: 8,
      },
      "no table states cached_input, cache_write from 500001 tokens; state the tier yourself",
    ],
    [
      "has a price per request",
      { requests_kcount: 5 },
      "the price files state rates of tokens, the table a price per request; state it yourself",
    ],
  ])("leaves a model out if the table %s", (_, prices, why) => {
    expect(imported(layers, modelA(prices))).toMatchObject({ left_out: [{ model: "model-a", why }], yaml: "" });
  });

  it("adds a tier if the table states all classes of the tier below", () => {
    const base = [shippedWith(""), []];
    const added = imported(base, modelA({ ...tiered(200_000, 4), cache_read_mtok: 0.2 }));
    expect(tiersOn(withFile(base, added))[1]).toBe("200001: input 4.00, cached_input 0.20, output 12.00");
  });

  it("leaves a model out if a file of the user changes the removed tier", () => {
    const own = {
      name: "mine/own.yaml",
      text: `models: { model-a: { change: { from: 2027-01-01, source: "ours", tiers: [{ from_prompt_tokens: 200001, ${rates("input 3.00")} }] } } }`,
    };
    const found = imported([layers[0] ?? [], [own]], modelA(tiered(256_000, 4)));
    expect(found).toMatchObject({
      left_out: [{ model: "model-a", why: expect.stringContaining("mine/own.yaml:1:") }],
      yaml: "",
    });
  });
});

describe("a change of an import", () => {
  it("compares with earlier changes of the user, and applies only to the figures that differ", () => {
    const own = {
      name: "mine/own.yaml",
      text: `models: { "model-*": { change: { from: 2026-06-01, source: "ours", ${rates("input 3.00, output 9.00")}, fraction: "0.5" } } }`,
    };
    const layers = [shippedWith(""), [own]];
    const found = imported(layers, modelA({ input_mtok: 3, output_mtok: 10 }));
    expect(found.yaml).toContain('      official: { output: "10.00" }\n');
    expect(tiersOn(withFile(layers, found))).toEqual(["0: input 3.00, cached_input 0.20, output 10.00"]);
  });

  it("states a class that would otherwise follow its changed parent", () => {
    const layers = [shippedWith(""), []];
    const found = imported(layers, modelA({ input_mtok: 3, cache_write_mtok: 2, output_mtok: 8 }));
    expect(found.yaml).toContain('official: { input: "3.00", cache_write: "2.00" }');
  });

  it("ends where the files announce another price of the same figures, and not before", () => {
    const announced = (text: string) => [
      shippedWith("").map(({ name, text: whole }) => ({
        name,
        text: `${whole.trimEnd()}\n      - from: 2027-01-01\n        source: "announced"\n        ${rates(text)}\n`,
      })),
      [],
    ];
    const table = modelA({ input_mtok: 3, output_mtok: 8 });
    expect(imported(announced("input 5.00, cached_input 0.20, output 8.00"), table).yaml).toContain(
      "      until: 2027-01-01\n",
    );
    expect(imported(announced("input 2.00, cached_input 0.50, output 8.00"), table).yaml).not.toContain("until");
  });

  it("states the price of a request, and keeps the gateway's", () => {
    const [file] = shippedWith("");
    const price = 'per_request: { official: "0.04", gateway: "0.03" }';
    const layers = [[{ name: "pricing/a.yaml", text: (file?.text ?? "").replace(/official: \{ input.*/, price) }], []];
    const found = imported(layers, modelA({ requests_kcount: 50 }));
    expect(found.yaml).toContain(`    change:
      # the gateway's own rates stay in force: check that they still apply
      from: 2026-12-01
      source: "price list of genai-prices (data.json), read 2026-12-01"
      per_request: { official: "0.05" }
`);
    const version = built(withFile(layers, found)).catalogue.find("model-a", Date.parse(day))?.price?.version;
    expect(version?.perRequest).toEqual({ charged: 30_000_000_000n, list: 50_000_000_000n });
    expect(imported(layers, modelA({ input_mtok: 1, output_mtok: 2 })).left_out).toEqual([
      {
        model: "model-a",
        why: "the price files state a price per request, the table rates of tokens; state it yourself",
      },
    ]);
  });

  it("ends where a pattern of the user announces other amounts, which the change of an id would precede", () => {
    const own = (models: string) => ({
      name: "mine/own.yaml",
      text: `models: { "${models}": { change: { from: 2027-01-01, source: "ours", ${rates("input 5.00")} } } }`,
    });
    const table = modelA({ input_mtok: 3, output_mtok: 9 });
    const byPattern = [shippedWith(""), [own("model-*")]];
    const found = imported(byPattern, table);
    expect(found.yaml).toContain("      until: 2027-01-01\n");
    expect(tiersOn(withFile(byPattern, found))).toEqual(["0: input 3.00, cached_input 0.20, output 9.00"]);
    expect(tiersOn(withFile(byPattern, found), "2027-01-01")).toEqual(tiersOn(byPattern, "2027-01-01"));
    const byId = [shippedWith(""), [own("model-a")]];
    expect(tiersOn(withFile(byId, imported(byId, table)), "2027-01-01")).toEqual([
      "0: input 5.00, cached_input 0.20, output 9.00",
    ]);
  });

  it("lists several changes if the table announces a price", () => {
    const layers = [shippedWith(""), []];
    const prices = [
      { prices: { input_mtok: 3, output_mtok: 8 } },
      { constraint: { start_date: "2027-02-01" }, prices: { input_mtok: 3, output_mtok: 16 } },
    ];
    const found = imported(layers, modelA(prices));
    expect(found.yaml).toContain(`    changes:
      - from: 2026-12-01
        source: "price list of genai-prices (data.json), read 2026-12-01"
        official: { input: "3.00" }
      - from: 2027-02-01
        source: "price list of genai-prices (data.json), read 2026-12-01"
        official: { output: "16.00" }
`);
    expect(tiersOn(withFile(layers, found), "2027-02-01")).toEqual(["0: input 3.00, cached_input 0.20, output 16.00"]);
  });
});

const shipped = readdirSync(pricing)
  .filter((name) => name.endsWith(".yaml"))
  .map((name) => ({ name: `pricing/${name}`, text: readFileSync(new URL(name, pricing), "utf8") }));

const own = {
  name: "mine/own.yaml",
  text: `groups: { large-general: { fraction: "0.75", cached_input: official } }
gateway: { minimum: { usd: "0.005" } }
models:
  "claude-*": { change: { from: 2026-06-01, source: "ours", ${rates("input 3.50")}, gateway: { output: "20.00" } } }
  gemini-2.5-pro: { change: { from: 2026-06-01, source: "ours", tiers: [{ from_prompt_tokens: 200001, gateway: { output: "14.00" } }] } }
`,
};

type Loaded = ReturnType<typeof built>;
type Tiers = readonly { readonly from: number; readonly official: Rates; readonly gateway: Rates }[];
type Rates = Readonly<Partial<Record<TokenClass, string>>>;

/** Returns all figures of a model on a day as texts. */
function figuresOf({ catalogue, origins }: Loaded, id: string, at: string) {
  const instant = Date.parse(at);
  const origin = origins.models.get(id);
  const price = (origin && decidedAt(id, origin, instant)?.price) ?? null;
  if (price === null) return null;
  const texts = (all: object): Rates =>
    Object.fromEntries(
      Object.entries(all).map(([name, each]: [string, { value: string } | undefined]) => [name, each?.value]),
    );
  const tiersOf = (tiers: DecidedPrice["tiers"]): Tiers =>
    tiers.map(({ from, official, gateway }) => ({
      from: from?.value ?? 0,
      official: texts(official),
      gateway: texts(gateway),
    }));
  return {
    tiers: tiersOf(price.tiers),
    serviceTiers: Object.fromEntries([...price.serviceTiers].map(([name, tiers]) => [name, tiersOf(tiers)])),
    perRequest: price.perRequest && { ...texts(price.perRequest) },
    fees: Object.fromEntries([...price.fees].map(([name, fee]) => [name, texts(fee)])),
    others: {
      fraction: price.fraction?.value,
      cacheTerms: texts(price.cacheTerms),
      minimum: price.minimum?.value,
      tierMode: price.tierMode?.value,
      traits: { ...catalogue.find(id, instant), price: null },
    },
  };
}

type Figures = NonNullable<ReturnType<typeof figuresOf>>;

const fields = {
  input_mtok: "input",
  cache_read_mtok: "cached_input",
  cache_write_mtok: "cache_write",
  cache_write_1h_mtok: "cache_write_1h",
  input_audio_mtok: "audio_input",
  output_mtok: "output",
} as const;

/** Rates of a random table: for the base and each tier, for each stated class. */
type RandomTiers = readonly { readonly from: number; readonly rates: Readonly<Record<string, string>> }[];

const rate = fc.integer({ min: 1, max: 9_999 }).map((cents) => (cents / 100).toFixed(2));

/** Returns random tiers, of which some begin where those of the price files do. */
function randomTiers(now: Tiers): fc.Arbitrary<RandomTiers> {
  const starts = now.slice(1).map(({ from }) => from);
  const someStarts = fc.oneof(
    fc.constant(starts),
    fc.constant(starts.map((start) => start + 50_000)),
    fc.constant(starts.map((start, index) => (index === 0 ? start + 1 : start))),
    fc.constant([...starts, 900_001]),
    fc.constant(starts.slice(1)),
  );
  return fc.tuple(someStarts, fc.subarray(Object.keys(fields))).chain(([sizes, some]) => {
    const names = [...new Set(["input_mtok", "output_mtok", ...some])];
    const record = fc.record(Object.fromEntries(names.map((name) => [name, rate])));
    const keeps = now[0]?.official ?? {};
    // Half of the rates stay as they are.
    const kept = record.map((made) =>
      Object.fromEntries(
        Object.entries(made).map(([name, text]) => {
          const known = keeps[fields[name as keyof typeof fields]];
          return [name, known !== undefined && text < "5" ? known : text];
        }),
      ),
    );
    return fc
      .tuple(kept, ...sizes.map(() => record))
      .map(([base, ...higher]) => [
        { from: 0, rates: base },
        ...higher.map((own, index) => ({ from: sizes[index] ?? 0, rates: own })),
      ]);
  });
}

function printed(tiers: RandomTiers): object {
  const [base, ...higher] = tiers;
  return Object.fromEntries(
    Object.entries(base?.rates ?? {}).map(([name, text]) => [
      name,
      { base: text, tiers: higher.map(({ from, rates: own }) => ({ start: from - 1, price: own[name] ?? "" })) },
    ]),
  );
}

/** Checks that tiers have the rates of a table, and otherwise those of the price files at the same position. */
function expectTiers(after: Tiers, before: Tiers, table: RandomTiers): void {
  expect(after.map(({ from }) => from)).toEqual(table.map(({ from }) => from));
  for (const [index, { official, gateway }] of after.entries()) {
    const stated = new Map(
      Object.entries(table[index]?.rates ?? {}).map(([name, text]) => [fields[name as keyof typeof fields], text]),
    );
    for (const [name, text] of stated)
      expect(parseRate(official[statedClass(name, official)] ?? "")).toBe(parseRate(text));
    const rest = Object.entries(before[index]?.official ?? {}).filter(([name]) => !stated.has(name as never));
    expect(official).toMatchObject(Object.fromEntries(rest));
    expect(gateway).toEqual(before[index]?.gateway ?? {});
  }
}

describe("an import of random tables over the shipped files", () => {
  it.each([
    ["no file of the user", []],
    ["a file of the user", [own]],
  ])("puts every stated figure in force from its day, and changes nothing else, with %s", (_, files) => {
    const layers = [shipped, files];
    const before = built(layers);
    const known = [...before.origins.models].flatMap(([id, { provider }]) => {
      const now = figuresOf(before, id, day);
      return id === "default" || now === null || now.perRequest !== null ? [] : [{ id, provider, now }];
    });
    const someModels = fc.shuffledSubarray(known, { minLength: 12, maxLength: 12 }).chain((picked) =>
      fc.tuple(
        ...picked.map(({ id, provider, now }) =>
          fc.record({
            id: fc.constant(id),
            provider: fc.constant(provider),
            tiers: randomTiers(now.tiers),
            flex: fc.option(randomTiers(now.serviceTiers["flex"] ?? [])),
            search: fc.option(fc.integer({ min: 1, max: 99 })),
          }),
        ),
      ),
    );
    let proposed = 0;
    fc.assert(
      fc.property(someModels, (models) => {
        const table = models.map(({ id, provider, tiers, flex, search }) => ({
          id: provider,
          models: [
            {
              id,
              match: { equals: id },
              prices: { ...printed(tiers), ...(search !== null && { web_searches_kcount: search }) },
              ...(flex && { price_variants: [{ when: { service_tier: "flex" }, prices: printed(flex) }] }),
            },
          ],
        }));
        const found = imported(layers, table);
        const after = built(withFile(layers, found));
        proposed += found.proposed.length;
        expect(found.proposed.length + found.unchanged + found.left_out.length).toBe(models.length);
        const out = new Set(found.left_out.map(({ model }) => model));
        for (const { id, tiers, flex, search } of models) {
          const [was, now] = [before, after].map((loaded) => figuresOf(loaded, id, day)) as [Figures, Figures];
          if (out.has(id)) {
            expect(now).toEqual(was);
            continue;
          }
          expect(now.others).toEqual(was.others);
          expectTiers(now.tiers, was.tiers, tiers);
          for (const name of serviceTierNames) {
            const own = now.serviceTiers[name];
            if (name === "flex" && flex) expectTiers(own ?? [], was.serviceTiers[name] ?? [], flex);
            else expect(own).toEqual(was.serviceTiers[name]);
          }
          const { web_search_call: fee, ...fees } = now.fees as Record<string, { official?: string }>;
          const { web_search_call: oldFee, ...oldFees } = was.fees as typeof now.fees;
          expect(fees).toEqual(oldFees);
          if (search === null) expect(fee).toEqual(oldFee);
          else {
            expect(parseUsd(fee?.official ?? "")).toBe(parseUsd(`0.${String(search).padStart(3, "0")}`));
            if (oldFee !== undefined) expect({ ...fee, official: "" }).toEqual({ ...(oldFee as object), official: "" });
          }
        }
        // All other models, and all days before, are as they were; only the end of a price can differ.
        const past = ({ catalogue }: Loaded) =>
          catalogue
            .histories()
            .map(({ id, spans }) => [
              id,
              spans
                .filter(({ start }) => start < Date.parse(day) || !models.some((each) => each.id === id))
                .map(({ start, model }) => [
                  start,
                  { ...model, price: model.price && { ...model.price.version, until: null } },
                ]),
            ]);
        expect(past(after)).toEqual(past(before));
      }),
      { numRuns: 6, seed: 1 },
    );
    expect(proposed).toBeGreaterThan(0);
  });
});
