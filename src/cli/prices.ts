import type { Command } from "commander";
import { pricesJson } from "../reporting/prices.ts";
import type { PricedModelJson } from "../reporting/shapes/prices.ts";
import { settingsFor, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, printJson, printLine } from "./io.ts";
import { registerPricesDiff } from "./prices-diff.ts";
import { registerImport } from "./prices-import.ts";
import { registerShow } from "./prices-show.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable, type Column, type TableCell } from "./table.ts";

/** `prices`: the price files, checked and shown. */
export function registerPrices(program: Command, context: CliContext): void {
  const prices = program.command("prices").description("check the price files, and show what is in them");
  registerCheck(prices, context);
  registerList(prices, context);
  registerShow(prices, context);
  registerPricesDiff(prices, context);
  registerImport(prices, context);
}

function registerCheck(prices: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = prices
    .command("check [folder]")
    .description("check the shipped price files and those of a folder; exit 1 when something is wrong with them")
    .option("--json", "print JSON");
  addSettingFlags(command, ["pricing"]);
  example(command, "farebox prices check my-prices");
  command.action(
    context.run(async (folder: string | undefined, options: { json?: true }) => {
      const loaded = settingsFor(context, command, { uses: ["pricing"] });
      if (!loaded.ok) return fail(io, loaded.problems);
      const loading = await adapters.loadCatalogue(folder ?? loaded.settings.pricing.folder);
      const count = loading.ok ? loading.catalogue.list(adapters.clock.now()).length : null;
      if (options.json) printJson(io, { ok: loading.ok, models: count, faults: loading.ok ? [] : loading.faults });
      else if (loading.ok) printLine(io, `${count} models, no fault`);
      else for (const fault of loading.faults) printLine(io, fault);
      return loading.ok ? 0 : 1;
    }),
  );
}

function registerList(prices: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = prices
    .command("list")
    .description("list the models with their prices in force now")
    .option("--json", "print JSON, with every rate");
  addSettingFlags(command, ["pricing"]);
  example(command, "farebox prices list");
  command.action(
    context.run(async (options: { json?: true }) => {
      const loaded = settingsFor(context, command, { uses: ["pricing"] });
      if (!loaded.ok) return fail(io, loaded.problems);
      const loading = await adapters.loadCatalogue(loaded.settings.pricing.folder);
      if (!loading.ok) return fail(io, loading.faults);
      const list = pricesJson(loading.catalogue, adapters.clock.now());
      if (options.json) printJson(io, list);
      else printTable(io, columns, list.models.map(priceCells));
      return 0;
    }),
  );
}

/** Rates are USD per 1M tokens of the first tier, in the standard service tier; "also" names what else there is, and `--json` has it all. */
const columns: readonly Column[] = [
  { title: "model" },
  { title: "provider" },
  { title: "group" },
  { title: "input", align: "right" },
  { title: "cached", align: "right" },
  { title: "output", align: "right" },
  { title: "official input", align: "right" },
  { title: "official output", align: "right" },
  { title: "also" },
  { title: "since" },
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
