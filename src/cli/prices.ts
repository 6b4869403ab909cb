import { pricesJson } from "../reporting/prices.ts";
import type { PricedModelJson } from "../reporting/shapes/prices.ts";
import { loadPrices } from "./price-files.ts";
import { command, json } from "./command.ts";
import { printLine, commandFailure } from "./io.ts";
import { pricesDiff } from "./prices-diff.ts";
import { pricesImport } from "./prices-import.ts";
import { pricesShow } from "./prices-show.ts";
import { fieldColumns, printRows, right } from "./table.ts";
import { priceSettings } from "./tools.ts";

/** Commands that check, show, compare and extend the price files. */
export const commands = [
  command("prices check [folder]", {
    summary: "check the shipped price files and those of a folder; exit code 1 if one has a fault",
    options: { json },
    settings: priceSettings,
    examples: ["farebox prices check my-prices"],
    run: async ({ prices, clock, settings }, _options, folder) => {
      const loading = await loadPrices(prices, { ...settings.pricing, folder: folder ?? settings.pricing.folder });
      return {
        isValid: loading.ok,
        models: loading.ok ? loading.catalogue.list(clock.now()).length : null,
        faults: loading.ok ? [] : loading.faults,
      };
    },
    json: ({ isValid, models, faults }) => ({ ok: isValid, models, faults }),
    print: (io, { isValid, models, faults }) => {
      if (isValid) printLine(io, `${models} models, no fault`);
      for (const fault of faults) printLine(io, fault);
    },
    code: ({ isValid }) => (isValid ? 0 : 1),
  }),

  command("prices list", {
    summary: "list models with their current prices",
    options: { json: { help: "print JSON, with every rate" } },
    settings: priceSettings,
    examples: ["farebox prices list"],
    run: async ({ prices, clock, settings }) => {
      const loading = await loadPrices(prices, settings.pricing);
      return loading.ok ? pricesJson(loading.catalogue, clock.now()) : commandFailure(loading.faults);
    },
    print: (io, { models }) => printRows(io, models, columns),
  }),

  pricesShow,
  pricesDiff,
  pricesImport,
];

type Model = PricedModelJson;

/**
 * Returns a column of rates: those of the first tier, in the standard service tier. A price per request appears in the
 * input column.
 */
function rateColumn(side: "gateway" | "official", name: "input" | "cached_input" | "output") {
  return right((model: Model) => {
    const price = priceOf(model);
    if (price?.per_request_usd) return name === "input" ? `${price.per_request_usd[side]} a request` : null;
    return price?.tiers[0]?.[`${side}_usd_per_million`][name] ?? null;
  });
}

/** Returns a model's price; null if it has none, or if the price has no rates. */
function priceOf({ price }: Model): Model["price"] {
  return price?.tiers[0] === undefined ? null : price;
}

/**
 * Columns of `prices list`. Rates are in USD per 1M tokens. The column "also" lists the prices that only `--json`
 * contains.
 */
const columns = {
  model: ({ id }: Model) => id,
  ...fieldColumns("provider", "group"),
  input: rateColumn("gateway", "input"),
  cached: rateColumn("gateway", "cached_input"),
  output: rateColumn("gateway", "output"),
  "official input": rateColumn("official", "input"),
  "official output": rateColumn("official", "output"),
  also: (model: Model) => alsoPriced(priceOf(model)),
  since: (model: Model) => priceOf(model)?.from ?? null,
};

/** Lists a model's other prices: "long prompts, priority, batch, fees". Returns null if there are none. */
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
