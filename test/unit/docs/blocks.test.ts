import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { loadSettings } from "../../../src/config/load.ts";
import { loadPrices } from "../../../src/cli/price-files.ts";
import { buildOnce } from "../../support/built-catalogues.ts";
import { harness } from "../../support/cli-harness.ts";
import { blocks, blocksWith, ruleOf, type Block } from "../../support/document-blocks.ts";
import { pricing } from "../../support/example-catalogue.ts";
import { tempFolder } from "../../support/ledger-fixtures.ts";
import { selectorsOf } from "../../support/promql.ts";

/** Fields that a model needs in addition to those that a page shows. */
const otherFields = { group: "official", tokenizer: "o200k_base", context_tokens: 128_000, max_output_tokens: 16_384 };

/** Returns the faults of a price file in the order of `farebox prices check`. */
async function priceFaults(text: string): Promise<readonly string[]> {
  using folder = tempFolder();
  writeFileSync(join(folder.path, "page.yaml"), text);
  const loading = await loadPrices({ shipped: pricing, build: buildOnce }, { preset: "piapi", folder: folder.path });
  return loading.ok ? [] : loading.faults;
}

/** Applies a file to an empty ledger. */
async function applyFaults(text: string): Promise<readonly string[]> {
  using farebox = harness();
  const file = join(farebox.folder, "page.yaml");
  writeFileSync(file, text);
  const { code, stderr } = await farebox.run("apply", file);
  return code === 0 ? [] : [stderr];
}

function settingsFaults(text: string): readonly string[] {
  const readFile = () => ({ ok: true as const, text });
  const loaded = loadSettings({ env: {}, flags: {}, readFile, uses: "all" });
  return loaded.ok ? [] : loaded.problems;
}

/** Returns the faults of a block whose rule this file checks. */
async function faultsOf({ language, code }: Pick<Block, "language" | "code">): Promise<readonly string[]> {
  switch (ruleOf({ language, code })) {
    case "prices":
      return priceFaults(code);
    case "model":
      return priceFaults(stringify({ provider: "page", models: { "a-model": { ...otherFields, ...parse(code) } } }));
    case "apply":
      return applyFaults(code);
    case "settings":
      return settingsFaults(code);
    case "json":
      JSON.parse(code);
      return [];
    case "promql":
      return code
        .trim()
        .split("\n")
        .flatMap((line) => (selectorsOf(line.replace(/ +#.*/, "")).length > 0 ? [] : [line]));
    default:
      return [];
  }
}

it("every block of a page has a rule", () => {
  expect(blocks.length).toBeGreaterThan(200);
  expect(blocks.filter((block) => ruleOf(block) === undefined).map(({ place }) => place)).toEqual([]);
});

describe("the block at", () => {
  it.each(blocksWith("prices", "model", "apply", "settings", "json", "promql"))("$place is valid", async (block) => {
    expect(await faultsOf(block)).toEqual([]);
  });
});

const yaml = (code: string) => ({ language: "yaml", code });

it.each([
  ["a wrong field", yaml("provider: mine\nmodels: { a: { tokens: 1 } }"), 'unknown field "tokens"'],
  ["a refused route", yaml('routes: { "GET /a/{task_id}": null, "GET /v1/b": { does: list, source: x } }'), "reserved"],
  ["a wrong field of a model", yaml("prices: []\nserved_by: [a]"), 'unknown field "served_by"'],
  ["a wrong setting", yaml("port: 4000\ngateway_uri: https://gateway.example"), "gateway_uri"],
  ["a wrong field of a key", yaml("keys: { alice: { rpm: 5 } }"), "rpm"],
])("the check finds %s", async (_name, block, fault) => {
  expect((await faultsOf(block)).join("\n")).toContain(fault);
});

it.each([
  ["YAML with an unknown member", yaml("paths: {}")],
  ["an unknown language", { language: "nginx", code: "server {}" }],
  ["commands without a language", { language: "", code: "npm ci" }],
])("%s has no rule", (_name, block) => {
  expect(ruleOf(block)).toBeUndefined();
});
