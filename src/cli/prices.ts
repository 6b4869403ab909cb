import { pricesJson } from "../reporting/prices.ts";
import type { PricedModelJson } from "../reporting/shapes/prices.ts";
import { loadPrices } from "../server/prices.ts";
import { command, json, refusal } from "./command.ts";
import { printLine } from "./io.ts";
import { pricesDiff } from "./prices-diff.ts";
import { pricesImport } from "./prices-import.ts";
import { pricesShow } from "./prices-show.ts";
import { figures, printTable, type TableCell } from "./table.ts";

/** The price files, checked and shown. */
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
    print: (io, { models }) => printTable(io, columns, models.map(priceCells)),
  }),

  pricesShow,
  pricesDiff,
  pricesImport,
];

/** Rates are USD per 1M tokens of the first tier, in the standard service tier; "also" names what else there is, and `--json` has it all. */
const columns = [
  "model",
  "provider",
  "group",
  figures("input"),
  figures("cached"),
  figures("output"),
  figures("official input"),
  figures("official output"),
  "also",
  "since",
];

function priceCells({ id, provider, group, price }: PricedModelJson): TableCell[] {
  const tier = price?.tiers[0];
  if (price === null || tier === undefined) return [id, provider, group, null, null, null, null, null, null, null];
  const also = alsoPriced(price);
  if (price.per_request_usd !== null) {
    const perRequest = `${price.per_request_usd.gateway} a request`;
    return [
      id,
      provider,
      group,
      perRequest,
      null,
      null,
      `${price.per_request_usd.official} a request`,
      null,
      also,
      price.from,
    ];
  }
  const [charged, official] = [tier.gateway_usd_per_million, tier.official_usd_per_million];
  return [
    id,
    provider,
    group,
    charged.input,
    charged.cached_input,
    charged.output,
    official.input,
    official.output,
    also,
    price.from,
  ];
}

/** "long prompts, priority, batch, fees"; null for nothing. */
function alsoPriced({ tiers, service_tiers, fees }: NonNullable<PricedModelJson["price"]>): string | null {
  const parts = [
    ...(tiers.length > 1 ? ["long prompts"] : []),
    ...service_tiers.map((each) => each.service_tier),
    ...(fees.length > 0 ? ["fees"] : []),
  ];
  return parts.length === 0 ? null : parts.join(", ");
}
