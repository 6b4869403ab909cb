import { pricesJson } from "../reporting/prices.ts";
import type { PricedModelJson } from "../reporting/shapes/prices.ts";
import { loadPrices } from "../server/prices.ts";
import { command, json, refusal } from "./command.ts";
import { printLine } from "./io.ts";
import { pricesDiff } from "./prices-diff.ts";
import { pricesImport } from "./prices-import.ts";
import { pricesShow } from "./prices-show.ts";
import { printRows, right } from "./table.ts";

/** Commands that check and show the price files. */
export const commands = [
  command("prices check [folder]", {
    summary: "check the shipped price files and those of a folder; exit 1 when something is wrong with them",
    options: { json },
    settings: ["pricing"],
    examples: ["farebox prices check my-prices"],
    run: async ({ prices, clock, settings }, _options, folder) => {
      const loading = await loadPrices(prices, folder ?? settings.pricing.folder);
      return {
        sound: loading.ok,
        models: loading.ok ? loading.catalogue.list(clock.now()).length : null,
        faults: loading.ok ? [] : loading.faults,
      };
    },
    json: ({ sound, models, faults }) => ({ ok: sound, models, faults }),
    print: (io, { sound, models, faults }) => {
      if (sound) printLine(io, `${models} models, no fault`);
      for (const fault of faults) printLine(io, fault);
    },
    code: ({ sound }) => (sound ? 0 : 1),
  }),

  command("prices list", {
    summary: "list the models with their prices in force now",
    options: { json: { help: "print JSON, with every rate" } },
    settings: ["pricing"],
    examples: ["farebox prices list"],
    run: async ({ prices, clock, settings }) => {
      const loading = await loadPrices(prices, settings.pricing.folder);
      return loading.ok ? pricesJson(loading.catalogue, clock.now()) : refusal(loading.faults);
    },
    print: (io, { models }) => printRows(io, models, columns),
  }),

  pricesShow,
  pricesDiff,
  pricesImport,
];

type Model = PricedModelJson;

/** Column for the rate of the first tier in the standard service tier. A price per request appears in the input column. */
function rate(side: "gateway" | "official", name: "input" | "cached_input" | "output") {
  return right((model: Model) => {
    const price = priceOf(model);
    if (price?.per_request_usd) return name === "input" ? `${price.per_request_usd[side]} a request` : null;
    return price?.tiers[0]?.[`${side}_usd_per_million`][name] ?? null;
  });
}

function priceOf({ price }: Model): Model["price"] {
  return price?.tiers[0] === undefined ? null : price;
}

/** Rates are in USD per 1M tokens. "also" names what the table omits; `--json` has it. */
const columns = {
  model: ({ id }: Model) => id,
  provider: ({ provider }: Model) => provider,
  group: ({ group }: Model) => group,
  input: rate("gateway", "input"),
  cached: rate("gateway", "cached_input"),
  output: rate("gateway", "output"),
  "official input": rate("official", "input"),
  "official output": rate("official", "output"),
  also: (model: Model) => alsoPriced(priceOf(model)),
  since: (model: Model) => priceOf(model)?.from ?? null,
};

/** Lists further prices of a model: "long prompts, priority, batch, fees"; null without any. */
function alsoPriced(price: Model["price"]): string | null {
  if (price === null) return null;
  const { tiers, service_tiers, fees } = price;
  const parts = [
    ...(tiers.length > 1 ? ["long prompts"] : []),
    ...service_tiers.map((each) => each.service_tier),
    ...(fees.length > 0 ? ["fees"] : []),
  ];
  return parts.length === 0 ? null : parts.join(", ");
}
