import { buildCatalogue } from "../src/catalogue/build.ts";
import { formatFault } from "../src/core/fault.ts";
import type { PicoUsd } from "../src/core/money.ts";
import { anyTaskType, canonicalPrice, type PinnedPrice, type PriceVersion } from "../src/core/price.ts";
import { contentId } from "../src/wire/content-id.ts";
import type { Catalogue, CatalogueTask } from "../src/ports/catalogue.ts";

/** Models that differ in everything that affects their cost. */
export const models = ["plain", "private", "thinker", "bill-errors", "minimum", "tiered"] as const;
export const unknownModel = "unheard-of";
/** Models whose output cannot be counted exactly: their tokenizer is unknown, or their reasoning is hidden. */
export const estimatedModels: ReadonlySet<string> = new Set(["private", "thinker"]);
/** Model that runs as a task. */
export const taskModel = "film";

/** Path of the task model. The model also accepts tasks on the common path. */
export const family = "/film";
export const familyCreation = `${family}/make`;

/** Largest output of any model, in tokens. */
export const modelOutputMax = 400;

/** Units of a task's consumption that cost one USD. */
const unitsPerUsd = 10_000_000n;
export const picoUsdPerUnit = 10n ** 12n / unitsPerUsd;

/** Three editions of the price files, with the same models at different rates. */
const editions: readonly Catalogue[] = [1, 2, 3].map((edition) => {
  const built = buildCatalogue([[{ name: "simulated.yaml", text: editionText(edition) }]]);
  if (!built.ok) throw new Error(built.faults.map(formatFault).join("\n"));
  return withTasks(built.catalogue, BigInt(edition));
});

/** Returns a model's price in the edition that contains the price with this id. */
export function priceInSameEdition(id: string, model: string): PinnedPrice | undefined {
  const at = Date.parse("2026-01-01");
  const edition = editions.find((each) => models.some((name) => each.find(name, at)?.price?.id === id));
  return edition?.find(model, at)?.price ?? undefined;
}

/** Returns the edition after this number of reloads. The editions repeat. */
export function editionOf(number: number): Catalogue {
  const edition = editions[number % editions.length];
  if (edition === undefined) throw new Error("no editions");
  return edition;
}

/** Adds the task model, whose price is an amount per second. */
function withTasks(catalogue: Catalogue, edition: bigint): Catalogue {
  const plain =
    catalogue.find("plain", 0)?.price?.version ?? catalogue.find("plain", Date.parse("2026-01-01"))?.price?.version;
  if (plain === undefined) throw new Error('the model "plain" has no price');
  const amount = (100_000_000n * edition) as PicoUsd;
  const version: PriceVersion = {
    ...plain,
    model: taskModel,
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
`;
}
