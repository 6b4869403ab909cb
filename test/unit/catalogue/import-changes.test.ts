import { describe, expect, it } from "vitest";
import { buildCatalogue, type PriceText } from "../../../src/catalogue/build.ts";
import { decidedAt } from "../../../src/catalogue/explain.ts";
import { importPrices } from "../../../src/catalogue/import/import.ts";
import type { DecidedPrice } from "../../../src/catalogue/levels.ts";
import { formatFault } from "../../../src/core/fault.ts";
import type { PriceImport } from "../../../src/ports/price-import.ts";
import { buildOnce } from "../../support/built-catalogues.ts";

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
