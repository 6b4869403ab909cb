import { join } from "node:path";
import { pricesJson } from "../reporting/prices.ts";
import type { PricedModelJson } from "../reporting/shapes/prices.ts";
import { emptyGroups, explainChanges, unlikelyRates } from "../catalogue/explain.ts";
import { ignoredIn } from "../catalogue/load.ts";
import type { ChangeExplanation } from "../ports/catalogue.ts";
import { loadPrices } from "./price-files.ts";
import { command, json } from "./command.ts";
import { printLine, commandFailure } from "./io.ts";
import { pricesDiff } from "./prices-diff.ts";
import { pricesImport } from "./prices-import.ts";
import { pricesShow, spanOf } from "./prices-show.ts";
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
      const checked = folder ?? settings.pricing.folder;
      const loading = await loadPrices(prices, { ...settings.pricing, folder: checked });
      return {
        isValid: loading.ok,
        models: loading.ok ? loading.catalogue.list(clock.now()).length : null,
        changes: loading.ok ? explainChanges(loading, clock.now()) : [],
        unlikely: loading.ok ? unlikelyRates(loading, clock.now()) : [],
        empty: loading.ok ? emptyGroups(loading, clock.now()) : [],
        ignored: checked === null ? [] : (await ignoredIn(checked)).map((name) => join(checked, name)),
        faults: loading.ok ? [] : loading.faults,
      };
    },
    json: ({ isValid, models, changes, unlikely, empty, ignored, faults }) => ({
      ok: isValid,
      models,
      changes: changes.map(changeJson),
      unlikely_rates: unlikely,
      empty_groups: empty.map(({ group, place }) => ({ group, ...place })),
      ignored,
      faults,
    }),
    print: (io, { isValid, models, changes, unlikely, empty, ignored, faults }) => {
      for (const change of changes) for (const line of changeLines(change)) printLine(io, line);
      for (const { are, models: of } of unlikely)
        printLine(io, `check the rates of ${listed(of)}: ${unlikelyWords[are]}`);
      for (const { group, place } of empty)
        printLine(io, `${place.file}:${place.line}: no model is in group "${group}", so it has no effect`);
      for (const file of ignored) printLine(io, `${file}: ignored, because its name does not end with .yaml or .yml`);
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

const unlikelyWords = {
  low: "the gateway's are below a hundredth of the official ones; rates are in USD per 1M tokens",
  high: 'the gateway\'s are more than ten times the official ones; 75 percent is the fraction "0.75"',
};

function changeJson({ of, place, from, until, models, aliases, misfits, standardOnly }: ChangeExplanation) {
  return { of, ...place, from, until, models, aliases, misfits, standard_only: standardOnly };
}

/** Returns what a change changes, and what it does not change, as lines with the change's position. */
function changeLines({ of, place, models, aliases, misfits, standardOnly, ...days }: ChangeExplanation): string[] {
  return [
    ...(models.length === 0 ? [] : [`"${of}" changes ${listed(models)} ${spanOf(days)}`.trimEnd()]),
    ...(aliases.length === 0 ? [] : [`"${of}" is also named ${aliases.join(", ")}`]),
    ...misfits.map((misfit) => `"${of}": ${misfit.part} does not fit ${listed(misfit.models)}`),
    ...(standardOnly.length === 0
      ? []
      : [`"${of}": the rates of long prompts and of other service tiers stay the same for ${listed(standardOnly)}`]),
  ].map((line) => `${place.file}:${place.line}: ${line}`);
}

/** Lists models: "2 models (a, b)", or with the first ones only: "9 models (a, b, c and 6 more)". */
function listed(models: readonly string[]): string {
  const shown = models.length > listedMax + 1 ? models.slice(0, listedMax) : models;
  const more = models.length - shown.length;
  const names = shown.join(", ") + (more > 0 ? ` and ${more} more` : "");
  return models.length === 1 ? names : `${models.length} models (${names})`;
}

const listedMax = 5;

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
    ...service_tiers.map((each) => each.service_tier).filter((name) => !name.includes("+")),
    ...(fees.length > 0 ? ["fees"] : []),
  ];
  return parts.length === 0 ? null : parts.join(", ");
}
