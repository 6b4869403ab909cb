import { readFileSync } from "node:fs";
import { buildCatalogue } from "../src/catalogue/build.ts";
import { formatFault } from "../src/core/fault.ts";
import { noMoney, type PicoUsd } from "../src/core/money.ts";
import { anyTaskType, canonicalPrice, type PriceVersion } from "../src/core/price.ts";
import { contentId } from "../src/wire/content-id.ts";
import type { Catalogue, CatalogueTask } from "../src/ports/catalogue.ts";
import { agentModels, type Prices } from "./tariffs.ts";

/** Models that differ in everything that affects their cost. */
export const models = ["plain", "private", "thinker", "bill-errors", "minimum", "tiered"] as const;
/** Models that clients ask for with Messages. */
export const messagesModels = ["opus", "haiku", "fable"] as const;
export const unknownModel = "unheard-of";
/** Models whose output cannot be counted exactly: their tokenizer is unknown, or their reasoning is hidden. */
export const estimatedModels: ReadonlySet<string> = new Set(["private", "thinker", "haiku", "fable"]);
/** Model that runs as a task. */
export const taskModel = "film";

/** Path of the task model. The model also accepts tasks on the common path. */
export const family = "/film";
export const familyCreation = `${family}/make`;

/** Largest output of any model, in tokens. */
export const modelOutputMax = 400;

/** Most tokens that a search adds to the prompt. */
export const searchTokens = 300;

/** Units of a task's consumption that cost one USD. */
const unitsPerUsd = 10_000_000n;
export const picoUsdPerUnit = 10n ** 12n / unitsPerUsd;

/** Names by which clients ask for a model in runs with own prices. */
function spellingsOf(model: string): readonly [string, ...string[]] {
  const fullWidth = String.fromCharCode((model.codePointAt(0) ?? 0) + 0xfee0);
  return [
    model,
    `Simulated/${model}`,
    model.toUpperCase(),
    `${model}-2026-11-20`,
    // The provider matches a pattern of `listed`.
    `p/${model.toUpperCase()}@latest`,
    `${fullWidth}${model.slice(1)}`,
  ];
}

const idsBySpelling = new Map(
  [...models, ...messagesModels].flatMap((model) => spellingsOf(model).map((name) => [name, model] as const)),
);

/** Returns the id of the model that a client asks for; the name itself if it is the name of no model. */
export function idOf(name: string): string {
  return idsBySpelling.get(name) ?? name;
}

/** Returns the name by which the request with this number asks for a model. */
export function spelled(model: string, count: number): string {
  const spellings = spellingsOf(model);
  return idsBySpelling.has(model) ? (spellings[count % spellings.length] ?? model) : model;
}

/** Patterns of the models that a key with a list may use, and the ids that they match. */
export const listed = { patterns: ["p*", "Tiered"], ids: ["plain", "private", "tiered"] } as const;

/** Returns the prices after this number of reloads. The editions repeat. */
export function pricesAfter(reloads: number, { preset, isOwn }: Omit<Prices, "edition">): Prices {
  return { edition: ([1, 2, 3] as const)[reloads % 3] ?? 1, preset, isOwn };
}

const built = new Map<string, Catalogue>();

/** Returns the catalogue of the files in force. */
export function catalogueOf(prices: Prices): Catalogue {
  const key = JSON.stringify(prices);
  const known = built.get(key);
  if (known !== undefined) return known;
  const { edition, preset, isOwn } = prices;
  const fileOf = (name: string, text: string) => [{ name: `${name}.yaml`, text }];
  const result = buildCatalogue([
    fileOf("simulated", editionText(edition)),
    preset === "official" ? fileOf("official", officialPreset) : [],
    isOwn ? fileOf("own", ownTexts[edition]) : [],
  ]);
  if (!result.ok) throw new Error(result.faults.map(formatFault).join("\n"));
  const catalogue = withTasks(result.catalogue, BigInt(preset === "official" ? 2 * edition : edition));
  built.set(key, catalogue);
  return catalogue;
}

const officialPreset = readFileSync(new URL("../pricing/presets/official.yaml", import.meta.url), "utf8");

/** The user's file in each edition. `tariffs.ts` states what it means. */
const ownTexts: Readonly<Record<Prices["edition"], string>> = {
  1: `
gateway: { cached_input: official, minimum: { usd: "0.0012" } }
models:
  plain:
    changes:
      - { from: 2026-03-29, source: ours, official: { output: "12.00" } }
      - { from: 2026-10-25, source: ours, official: { output: "14.00" } }
      - { from: 2026-11-01, source: ours, official: { output: "16.00" } }
      - { from: 2026-11-21, source: ours, official: { output: "18.00" } }
  tiered:
    change:
      from: 2020-01-01
      source: ours
      tier_mode: marginal
      tiers: [{ from_prompt_tokens: 45, official: { input: "4.00", output: "12.00" } }]
`,
  2: `
gateway: { cached_input: "0.50", cache_write: "1.00" }
groups:
  full: { minimum: { tokens: 150 } }
  margin: { fraction: "1.1", minimum: { tokens: 50, usd: "0.0004" } }
models:
  "p*": { change: { from: 2026-11-01, source: ours, group: margin } }
  private: { change: { from: 2026-03-29, source: ours, official: { output: "30.00" } } }
`,
  3: `
gateway: { fraction: "0.5", minimum: { tokens: 30, usd: "0.0001" } }
groups:
  full: { cached_input: "0.25", cache_write: input }
  half: { minimum: { tokens: 200 } }
models:
  "*in*": { change: { from: 2026-10-25, source: ours, gateway: { output: "20.00" }, minimum: { usd: "0.0012" } } }
  thinker: { change: { from: 2020-01-01, source: ours, gateway: { output: "40.00" } } }
  tiered:
    change:
      from: 2026-03-29
      source: ours
      tier_mode: marginal
      tiers:
        - { from_prompt_tokens: 60, remove: true }
        - { from_prompt_tokens: 70, official: { input: "20.00", output: "60.00" } }
`,
};

/** Adds the task model, whose price is an amount per second. */
function withTasks(catalogue: Catalogue, factor: bigint): Catalogue {
  const plain =
    catalogue.find("plain", 0)?.price?.version ?? catalogue.find("plain", Date.parse("2026-01-01"))?.price?.version;
  if (plain === undefined) throw new Error('the model "plain" has no price');
  const amount = (100_000_000n * factor) as PicoUsd;
  const version: PriceVersion = {
    ...plain,
    model: taskModel,
    minimum: { tokens: 0, usd: noMoney },
    task: { taskType: anyTaskType, per: "second", charged: amount, list: amount },
  };
  const canonical = canonicalPrice(version);
  const task: CatalogueTask = {
    id: taskModel,
    group: "half",
    billsServerErrors: false,
    price: { id: contentId(canonical), canonical, version },
    quantity: { field: "duration", otherwise: "5", most: "10" },
  };
  return {
    ...catalogue,
    taskUnits: new Map([["llm", unitsPerUsd]]),
    findTask: (model, taskType, at) => (model === taskModel ? task : catalogue.findTask(model, taskType, at)),
  };
}

function editionText(edition: number): string {
  const rate = (usd: number) => `"${usd * edition}.00"`;
  const price = (input: number, output: number, more = "") => `
    prices:
      - from: 2020-01-01
        source: "edition ${edition}"
        official: { input: ${rate(input)}, cached_input: ${rate(1)}, output: ${rate(output)} }${more}`;
  return `
groups:
  half: { fraction: "0.5" }
  full: { fraction: "1" }
  agents: { fraction: "1", cached_input: official }
routes:
  "POST ${familyCreation}": { does: create, model: ${taskModel}, type: video, source: simulated }
  "GET ${family}/{task_id}": { does: retrieve, source: simulated }
provider: simulated
defaults: { tokenizer: o200k_base, streams: live, context_tokens: 4000, max_output_tokens: ${modelOutputMax}, max_output_field: { chat: max_tokens }, reasoning: false }
models:
  plain:
    group: half${price(2, 10)}
  private:
    group: full
    tokenizer: null
    error_factor: "1.2"
    tokens_per_byte: "1.5"${price(3, 12)}
  thinker:
    group: full
    reasoning: true
    tokens_per_second: 50${price(4, 20)}
  bill-errors:
    group: full
    bills_server_errors: true${price(2, 8)}
  minimum:
    group: full${price(2, 8, '\n        minimum: { tokens: 40, usd: "0.0002" }')}
  tiered:
    group: full${price(
      2,
      8,
      `
        tiers:
          - from_prompt_tokens: 60
            official: { input: ${rate(6)}, output: ${rate(18)} }`,
    )}
${messagesModels.map((model) => agentText(model, edition)).join("")}`;
}

/** What differs between the models for Messages, in addition to their prices. */
const agentTraits: Readonly<Record<(typeof messagesModels)[number], string>> = {
  opus: "",
  haiku: 'tokenizer: null\n    error_factor: "1.2"\n    tokens_per_byte: "1.5"',
  fable: "reasoning: true\n    tokens_per_second: 50",
};

const factorTexts = {
  fast: 'speed: { fast: { input: "2", cached_input: "1", output: "2" } }',
  us: 'inference_geo: { us: "1.1" }',
} as const;

function agentText(model: (typeof messagesModels)[number], edition: number): string {
  const agent = agentModels[model];
  if (agent === undefined) throw new Error(`the model "${model}" has no tariff`);
  const usd = (amount: number) => `"${(amount * edition).toFixed(6)}"`;
  const rates = (times: number) =>
    [
      `input: ${usd(agent.input * times)}, cached_input: ${usd(agent.cached * times)}`,
      `cache_write: ${usd(agent.written * times)}, output: ${usd(agent.output * times)}`,
      ...(agent.hour === null ? [] : [`cache_write_1h: ${usd(agent.hour * times)}`]),
    ].join(", ");
  const more = [
    ...(agent.doubledFrom === null
      ? []
      : [`tiers: [{ from_prompt_tokens: ${agent.doubledFrom}, official: { ${rates(2)} } }]`]),
    ...(agent.terms.length === 0 ? [] : [`factors: { ${agent.terms.map((name) => factorTexts[name]).join(", ")} }`]),
    ...(agent.searchFee === null
      ? []
      : [`fees: { web_search_call: { usd: ${usd(agent.searchFee)}, input_tokens: ${searchTokens} } }`]),
  ];
  return `  ${model}:
    group: agents
    ${agentTraits[model]}
    prices:
      - from: 2020-01-01
        source: "edition ${edition}"
        official: { ${rates(1)} }
${more.map((line) => `        ${line}\n`).join("")}`;
}
