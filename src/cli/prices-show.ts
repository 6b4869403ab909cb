import { parseInstant } from "../reporting/instants.ts";
import { fieldsText } from "../reporting/model-diff.ts";
import { priceShown, type PriceShown } from "../reporting/price-explained.ts";
import { explainModel } from "../server/prices.ts";
import { calendarOf } from "../platform/clock.ts";
import { command, json, refusal } from "./command.ts";
import { printLine, type Io } from "./io.ts";
import { figures, printFields, printTable, type TableCell } from "./table.ts";

export const pricesShow = command("prices show <model>", {
  summary: "show how a model's price is computed: official rate, group, fraction, result; exit 1 for an unknown model",
  options: {
    at: {
      value: "<when>",
      help: "the price in force then: 2026-03-12 (UTC, from its beginning), 7d ago or an ISO instant",
      default: "0s",
    },
    json,
  },
  settings: ["pricing"],
  examples: ["farebox prices show gpt-4o", "farebox prices show claude-opus-4-6 --at 2026-03-12"],
  run: async ({ prices, clock, settings }, options, model) => {
    // Prices are valid by UTC day, in any time zone of the budgets.
    const at = parseInstant("--at", options.at, clock.now(), calendarOf("UTC"));
    if (!at.ok) return refusal(at.problem);
    const found = await explainModel(prices, settings.pricing.folder, model, at.at);
    if (!found.ok) return refusal(found.faults);
    if (found.explained === undefined) return refusal(unknownModel(model, found.near), 1);
    return { model, near: found.near, shown: priceShown(model, found.explained, at.at) };
  },
  json: ({ shown }) => shown,
  print: (io, { shown }) => print(io, shown),
  notes: ({ shown, model, near }) =>
    shown.found_by === "default"
      ? [`no price file names ${model}${didYouMean(near) || ";"} it is charged at the ceiling price of unknown models`]
      : [],
});

function unknownModel(model: string, near: readonly string[]): string {
  return `no price file names the model "${model}"${didYouMean(near) || ";"} farebox prices list shows them all`;
}

function didYouMean(near: readonly string[]): string {
  if (near.length === 0) return "";
  const [last, ...others] = near.toReversed();
  return `; did you mean ${others.length === 0 ? "" : `${others.toReversed().join(", ")} or `}${last}?`;
}

function print(io: Io, shown: PriceShown): void {
  const { group, price, bounds } = shown;
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
    ["context", `${bounds.context_tokens} ${bounds.unit}s, at most ${bounds.max_output_tokens} of output`],
    [
      "bound of a part",
      `image ${boundOf(bounds.image_part_tokens)}, audio ${boundOf(bounds.audio_part_tokens)}, file ${boundOf(bounds.file_part_tokens)}`,
    ],
    ["tokenizer", bounds.tokenizer ?? `not published: o200k_base times ${bounds.error_factor}`],
    ["tokens of a byte", `at most ${bounds.tokens_per_byte}`],
    ["streams", bounds.streams === "live" ? "live: a hold may grow" : "burst: the whole answer is held"],
    ["output field", fieldsText(bounds.max_output_field)],
    ["max_tool_calls", bounds.obeys_max_tool_calls ? "obeyed" : null],
    ["hidden reasoning", bounds.reasoning ? `yes, ${bounds.tokens_per_second} tokens a second` : "no"],
  ]);
  if (price?.per_request) {
    const { official_usd, gateway_usd, ...rule } = price.per_request;
    printLine(io, "");
    printTable(io, columnsOf("per", "USD"), [
      ["request", official_usd, gateway_usd, wordsOf({ ...rule, of: official_usd })],
    ]);
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
      printTable(io, columnsOf("class", `USD per 1M ${bounds.unit}s`), tier.rates.map(rateCells));
    }
  }
  if (price !== null && price.fees.length > 0) {
    printLine(io, "");
    const rows = price.fees.map(({ tool, official_usd, gateway_usd, input_tokens, ...rule }) => [
      tool,
      official_usd,
      gateway_usd,
      wordsOf({ ...rule, of: official_usd }),
      input_tokens,
    ]);
    printTable(io, [...columnsOf("fee of a call", "USD"), figures("tokens it may add")], rows);
  }
  if (shown.tasks.length > 0) {
    printLine(io, "");
    const columns = ["task", ...columnsOf("per", "USD"), "in force"];
    printTable(
      io,
      columns,
      shown.tasks.map((task) => [
        task.task_type,
        measureOf(task),
        task.official_usd,
        task.gateway_usd,
        taskRule(task),
        spanOf(task),
      ]),
    );
  }
  const others = shown.entries.filter((entry) => !entry.in_force);
  if (others.length > 0) {
    printLine(io, "");
    for (const entry of others) printLine(io, `another price: ${spanOf(entry)} (${entry.file}:${entry.line})`);
  }
}

function columnsOf(first: string, unit: string) {
  return [first, figures(`official, ${unit}`), figures(`gateway, ${unit}`), "because"];
}

type TaskShown = PriceShown["tasks"][number];

function taskRule({ fraction, official_usd }: TaskShown): string {
  return fraction === null ? "stated by the gateway" : `${fraction} of ${official_usd}`;
}

/** Describes the measure of a task price: "second of input.duration (5 where it states none, at most 10)". */
function measureOf({ per, field, default: otherwise, max }: TaskShown): string {
  if (field === null) return per;
  const bounds = [
    ...(otherwise === null ? [] : [`${otherwise} where it states none`]),
    ...(max === null ? [] : [`at most ${max}`]),
  ];
  return `${per} of input.${field}${bounds.length === 0 ? "" : ` (${bounds.join(", ")})`}`;
}

type Rate = NonNullable<PriceShown["price"]>["tiers"][number]["rates"][number];

function rateCells(rate: Rate): TableCell[] {
  const official =
    rate.official_of === rate.class
      ? rate.official_usd_per_million
      : `(${rate.official_of}) ${rate.official_usd_per_million}`;
  return [rate.class, official, rate.gateway_usd_per_million, wordsOf({ ...rate, of: rate.official_usd_per_million })];
}

function wordsOf({
  rule,
  fraction,
  as,
  of,
}: {
  readonly rule: Rate["rule"];
  readonly fraction: string | null;
  readonly as: string | null;
  readonly of: string;
}): string {
  switch (rule) {
    case "stated":
      return "stated by the gateway";
    case "share":
      return `${fraction} of ${of}`;
    case "as":
      return `charged as ${as}`;
  }
}

function tierTitle(from: number, mode: string): string {
  const whole = mode === "whole_request" ? "all tokens of requests with prompts" : "the part of the prompt";
  return from === 0 ? "prompts below the tiers" : `${whole} from ${from} tokens`;
}

function spanOf({ from, until }: { readonly from: string; readonly until: string | null }): string {
  return until === null ? `from ${from}` : `from ${from} until before ${until}`;
}

function minimumOf({ tokens, usd }: { readonly tokens: number; readonly usd: string }): string | null {
  const parts = [...(tokens > 0 ? [`${tokens} tokens`] : []), ...(usd === "0.00" ? [] : [`USD ${usd}`])];
  return parts.join(", ") || null;
}

function boundOf(tokens: number | null): string {
  return tokens === null ? "the context" : `${tokens} tokens`;
}
