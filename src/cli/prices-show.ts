import { fieldsText } from "../reporting/prices-diff.ts";
import type { PriceExample } from "../reporting/price-examples.ts";
import { priceShown, type PriceShown } from "../reporting/price-explained.ts";
import { explainPrice, similarNames } from "../catalogue/explain.ts";
import { calendarOf } from "../platform/clock.ts";
import { readInstant } from "./arguments.ts";
import { loadPrices } from "./price-files.ts";
import { command, json } from "./command.ts";
import { printLine, commandFailure, type Io } from "./io.ts";
import { fieldColumns, printFields, printRows, right, type RowColumns } from "./table.ts";
import { priceSettings } from "./tools.ts";

export const pricesShow = command("prices show <model>", {
  summary:
    "show how a model's price is computed: official rate, group, fraction, result and an example; exit code 1 for an unknown model",
  options: {
    at: {
      value: "<when>",
      help: "time of the price: 2026-03-12 (its beginning in UTC), 7d (ago) or an ISO instant",
      default: "0s",
      defaultShown: "now",
    },
    json,
  },
  settings: priceSettings,
  examples: ["farebox prices show gpt-4o", "farebox prices show claude-opus-4-6 --at 2026-03-12"],
  run: async ({ prices, clock, settings }, options, model) => {
    // Prices change at the start of a UTC day, whatever the time zone of the budgets is.
    const at = readInstant("--at", options.at, { clock, calendar: calendarOf("UTC") });
    if (!at.ok) return at;
    const loading = await loadPrices(prices, settings.pricing);
    if (!loading.ok) return commandFailure(loading.faults);
    const near = similarNames(loading, model);
    const explained = explainPrice(loading, model, at.at);
    if (explained === undefined) return commandFailure(unknownModel(model, near), 1);
    return { model, near, shown: priceShown(model, explained, at.at) };
  },
  json: ({ shown }) => shown,
  print: (io, { shown }) => print(io, shown),
  notes: ({ shown, model, near }) =>
    shown.found_by === "default"
      ? [`no price file names ${model}, so the ceiling price of unknown models applies${suggestionOf(near)}`]
      : [],
});

function unknownModel(model: string, near: readonly string[]): string {
  return `no price file names the model "${model}"${suggestionOf(near) || ";"} farebox prices list shows all models`;
}

function suggestionOf(near: readonly string[]): string {
  if (near.length === 0) return "";
  const [last, ...others] = near.toReversed();
  return `; did you mean ${others.length === 0 ? "" : `${others.toReversed().join(", ")} or `}${last}?`;
}

function print(io: Io, shown: PriceShown): void {
  const { group, price, bounds, bounds_at: places } = shown;
  /** Adds the places that decide properties of the model. */
  const placed = (text: string | null, ...fields: readonly string[]) => {
    const stated = [...new Set(fields.flatMap((field) => places[field] ?? []))];
    return text === null || stated.length === 0 ? text : `${text} (${stated.join(", ")})`;
  };
  const asked = shown.asked === shown.model ? shown.model : `${shown.model} (asked for as ${shown.asked})`;
  printFields(io, [
    ["model", asked],
    ["aliases", shown.aliases.join(", ") || null],
    ["served as", shown.served_as.join(", ") || null],
    ["provider", shown.provider],
    ["stated in", `${shown.file}:${shown.line}`],
    [
      "group",
      group === null ? null : `${group.name}, ${group.fraction} of the official price (${group.file}:${group.line})`,
    ],
    ["price version", price?.price_version ?? null],
    ["in force", price === null ? `none at ${shown.at}` : `${spanOf(price)} (${price.file}:${price.line})`],
    ["source", price?.source ?? null],
    ["minimum", price === null ? null : minimumOf(price.minimum)],
    [
      "context",
      placed(
        `${bounds.context_tokens} ${bounds.unit}s, at most ${bounds.max_output_tokens} of output`,
        "context_tokens",
        "max_output_tokens",
      ),
    ],
    [
      "prompt parts",
      placed(
        `image ${boundOf(bounds.image_part_tokens)}, audio ${boundOf(bounds.audio_part_tokens)}, file ${boundOf(bounds.file_part_tokens)}`,
        "image_part_tokens",
        "audio_part_tokens",
        "file_part_tokens",
      ),
    ],
    [
      "tokenizer",
      placed(
        bounds.tokenizer ?? `not published: o200k_base times ${bounds.error_factor}`,
        ...(bounds.tokenizer === null ? ["tokenizer", "error_factor"] : ["tokenizer"]),
      ),
    ],
    ["tokens per byte", placed(`at most ${bounds.tokens_per_byte}`, "tokens_per_byte")],
    [
      "streams",
      placed(
        bounds.streams === "live" ? "live: a hold may grow" : "burst: the hold covers the largest answer",
        "streams",
      ),
    ],
    ["output field", placed(fieldsText(bounds.max_output_field), "max_output_field")],
    ["max_tool_calls", placed(bounds.obeys_max_tool_calls ? "obeyed" : null, "obeys_max_tool_calls")],
    [
      "hidden reasoning",
      bounds.reasoning
        ? placed(`yes, ${bounds.tokens_per_second} tokens a second`, "reasoning", "tokens_per_second")
        : placed("no", "reasoning"),
    ],
  ]);
  if (price?.per_request) {
    const { official_usd, gateway_usd, ...rule } = price.per_request;
    printLine(io, "");
    const row = { item: "request", official: official_usd, gateway: gateway_usd };
    printRows(io, [{ ...row, ...reasonOf({ ...rule, official: official_usd }) }], reasonColumns("per", "USD"));
  }
  for (const { service_tier, tiers } of price === null
    ? []
    : [{ service_tier: null, tiers: price.tiers }, ...price.service_tiers]) {
    for (const tier of tiers) {
      const title = [
        ...(service_tier === null ? [] : [`service tier ${service_tier}`]),
        ...(tiers.length > 1 ? [tierTitle(tier.from_prompt_tokens, price?.tier_mode ?? "")] : []),
      ];
      printLine(io, "");
      if (title.length > 0) printLine(io, title.join(", "));
      printRows(io, tier.rates.map(rateRow), reasonColumns("class", `USD per 1M ${bounds.unit}s`));
    }
  }
  if (price !== null && price.factors.length > 0) {
    printLine(io, "");
    printRows(io, price.factors, {
      "factor of the rates": ({ field, value }) => `${field} ${value}`,
      factor: ({ factors }) => factors,
      at: { cell: ({ at }) => at, narrow: "drop" },
    });
  }
  if (price !== null && price.fees.length > 0) {
    printLine(io, "");
    const rows = price.fees.map(({ tool, official_usd, gateway_usd, input_tokens, ...rule }) => ({
      item: tool,
      official: official_usd,
      gateway: gateway_usd,
      ...reasonOf({ ...rule, official: official_usd }),
      added: input_tokens,
    }));
    const columns = reasonColumns("fee per call", "USD");
    printRows(io, rows, { ...columns, "added tokens (at most)": right(({ added }) => added) });
  }
  for (const example of shown.examples) printExample(io, example, bounds.unit);
  if (shown.tasks.length > 0) {
    printLine(io, "");
    const rows = shown.tasks.map((task) => ({
      task: task.task_type,
      item: measureOf(task),
      official: task.official_usd,
      gateway: task.gateway_usd,
      because: taskRule(task),
      "in force": spanOf(task),
    }));
    printRows(io, rows, { ...fieldColumns("task"), ...priceColumns("per", "USD"), ...fieldColumns("in force") });
  }
  const others = shown.entries.filter((entry) => !entry.in_force);
  if (others.length > 0) {
    printLine(io, "");
    for (const entry of others) printLine(io, `another price: ${spanOf(entry)} (${entry.file}:${entry.line})`);
  }
}

interface PriceRow {
  readonly item: string;
  readonly official: string | null;
  readonly gateway: string | null;
  readonly because: string;
}

function priceColumns(first: string, unit: string): RowColumns<PriceRow> {
  return {
    [first]: ({ item }) => item,
    [`official, ${unit}`]: right(({ official }) => official),
    [`gateway, ${unit}`]: right(({ gateway }) => gateway),
    ...fieldColumns("because"),
  };
}

/** Row with the places that decide its amounts; null for a default. */
interface PlacedRow extends PriceRow {
  readonly "gateway at": string | null;
  readonly "official at": string | null;
}

function reasonColumns(first: string, unit: string): RowColumns<PlacedRow> {
  return {
    ...priceColumns(first, unit),
    "gateway at": { cell: (row) => row["gateway at"], narrow: "drop" },
    "official at": { cell: (row) => row["official at"], narrow: "drop" },
  };
}

function printExample(io: Io, { request, items, ...sums }: PriceExample, unit: string): void {
  const total = { class: "total", tokens: 0, usd_per_million: null, official_usd_per_million: null, ...sums };
  printLine(io, "");
  printLine(io, `example: ${request}`);
  printRows(io, [...items, total], {
    item: (row) => row.class,
    // A line without a rate does not depend on a number of tokens.
    [`${unit}s`]: right(({ tokens, usd_per_million: rate }) => (rate === null ? null : tokens)),
    "gateway, USD per 1M": right((row) => row.usd_per_million),
    cost: right((row) => row.cost_usd),
    "official, USD per 1M": right((row) => row.official_usd_per_million),
    "list cost": right((row) => row.list_cost_usd),
  });
}

type TaskShown = PriceShown["tasks"][number];

function taskRule({ fraction, official_usd }: TaskShown): string {
  return fraction === null ? "stated by the gateway" : `${fraction} of ${official_usd}`;
}

/** Describes the measure of a task price: "second of input.duration (5 if not stated, at most 10)". */
function measureOf({ per, field, default: otherwise, max }: TaskShown): string {
  if (field === null) return per;
  const bounds = [
    ...(otherwise === null ? [] : [`${otherwise} if not stated`]),
    ...(max === null ? [] : [`at most ${max}`]),
  ];
  return `${per} of input.${field}${bounds.length === 0 ? "" : ` (${bounds.join(", ")})`}`;
}

type Rate = NonNullable<PriceShown["price"]>["tiers"][number]["rates"][number];

function rateRow(rate: Rate): PlacedRow {
  const { official_usd_per_million: official } = rate;
  return {
    item: rate.class,
    official: rate.official_of === rate.class ? official : `(${rate.official_of}) ${official}`,
    gateway: rate.gateway_usd_per_million,
    ...reasonOf({ ...rate, official }),
  };
}

/** Returns the reason of an amount in words, and its places. */
function reasonOf(
  reason: Pick<Rate, "rule" | "fraction" | "as" | "official_at" | "gateway_at"> & { readonly official: string },
) {
  const words = {
    stated: "stated by the gateway",
    share: `${reason.fraction} of ${reason.official}`,
    as: `charged as ${reason.as}`,
  };
  return { because: words[reason.rule], "gateway at": reason.gateway_at, "official at": reason.official_at };
}

function tierTitle(from: number, mode: string): string {
  const whole = mode === "whole_request" ? "all tokens of requests with prompts" : "the part of the prompt";
  return from === 0 ? "prompts below the first tier" : `${whole} from ${from} tokens`;
}

/** Returns the days in which a statement applies, in words; "" for all days. */
export function spanOf({ from, until }: { readonly from: string | null; readonly until: string | null }): string {
  return [...(from === null ? [] : [`from ${from}`]), ...(until === null ? [] : [`until ${until} (exclusive)`])].join(
    " ",
  );
}

function minimumOf({ tokens, usd, at }: NonNullable<PriceShown["price"]>["minimum"]): string | null {
  const parts = [...(tokens > 0 ? [`${tokens} tokens`] : []), ...(usd === "0.00" ? [] : [`USD ${usd}`])];
  return at === null ? null : `${parts.join(", ") || "none"} (${at})`;
}

function boundOf(tokens: number | null): string {
  return `at most ${tokens === null ? "the context" : `${tokens} tokens`}`;
}
