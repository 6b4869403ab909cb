import { formatRate, formatUsd } from "../core/money.ts";
import type { PriceTier } from "../core/price.ts";
import { tokenClasses, type TokenClass } from "../core/usage.ts";
import type {
  CatalogueModel,
  FileLocation,
  PlacedRule,
  PriceExplanation,
  TaskHistory,
  TierRules,
} from "../ports/catalogue.ts";
import { isoTime } from "../core/time.ts";
import { priceExamples } from "./price-examples.ts";
import { tierModeOf } from "./prices.ts";

/** Answer of `prices show`: the origin of a model's price at an instant. */
export type PriceShown = ReturnType<typeof priceShown>;

export function priceShown(asked: string, explained: PriceExplanation, at: number) {
  const { model, place, group, entries, inForce } = explained;
  return {
    asked,
    model: model.id,
    found_by: explained.foundBy,
    aliases: explained.aliases,
    served_as: model.servedAs,
    provider: model.provider,
    group: group === null ? null : { name: group.name, fraction: group.fraction, ...group.place },
    ...place,
    bounds: boundsOf(model),
    /** Place that decides each bound, by the name of its field in price files. */
    bounds_at: Object.fromEntries(Object.entries(explained.traits).map(([name, at]) => [name, placeText(at)])),
    at: isoTime(at),
    entries: entries.map((entry) => ({
      from: entry.from,
      until: entry.until,
      ...entry.place,
      in_force: entry === inForce?.entry,
    })),
    price: inForce === null ? null : priceOf(model, inForce),
    examples: model.price === null ? [] : priceExamples(model.price.version, model),
    tasks: explained.tasks.flatMap((task) => taskJson(task, at)),
  };
}

/** Returns a list with the price in force of a task type. The list is empty if no price is in force. */
function taskJson({ taskType, spans }: TaskHistory, at: number) {
  const span = spans.findLast(({ start }) => start <= at);
  const version = span?.price?.version;
  if (span === undefined || version?.task === undefined) return [];
  const { per, list, charged } = version.task;
  const { field, otherwise, most } = span.quantity;
  const { from, until, source, fraction } = version;
  const amounts = { official_usd: formatUsd(list), gateway_usd: formatUsd(charged), fraction };
  return [{ task_type: taskType, per, field, default: otherwise, max: most, ...amounts, from, until, source }];
}

/** Returns a place as text, such as "my-prices/gateway.yaml:3"; null if no file states the figure. */
function placeText(place: FileLocation | null): string | null {
  return place === null ? null : `${place.file}:${place.line}`;
}

function boundsOf(model: CatalogueModel) {
  return {
    context_tokens: model.contextTokens,
    max_output_tokens: model.outputTokensMax,
    max_output_field: model.maxOutputField,
    image_part_tokens: model.imagePartTokens,
    audio_part_tokens: model.audioPartTokens,
    file_part_tokens: model.filePartTokens,
    tokenizer: model.tokenizerIsPublic ? model.encoding : null,
    streams: model.streams,
    error_factor: model.errorFactor / 1000,
    tokens_per_byte: model.tokensPerByte / 1000,
    reasoning: model.reasons,
    tokens_per_second: model.tokensPerSecond,
    bills_server_errors: model.billsServerErrors,
    obeys_max_tool_calls: model.obeysMaxToolCalls,
    unit: model.unit,
    images_only: model.imagesOnly,
  };
}

function priceOf(
  { price }: CatalogueModel,
  { entry, tiers, perRequest, serviceTiers, factors, fees, minimum }: NonNullable<PriceExplanation["inForce"]>,
) {
  if (price === null) return null;
  const { version } = price;
  const flat = version.perRequest;
  return {
    price_version: price.id,
    from: version.from,
    until: version.until,
    ...entry.place,
    source: version.source,
    tier_mode: tierModeOf(version),
    tiers: tiers.flatMap((rules, index) => tierJson(version.tiers[index], rules)),
    per_request:
      flat === null || perRequest === null
        ? null
        : { official_usd: formatUsd(flat.list), gateway_usd: formatUsd(flat.charged), ...ruleJson(perRequest) },
    minimum: { tokens: version.minimum.tokens, usd: formatUsd(version.minimum.usd), at: placeText(minimum) },
    service_tiers: Object.entries(serviceTiers).map(([name, rules]) => ({
      service_tier: name,
      tiers: rules.flatMap((own, index) => tierJson(version.serviceTiers?.[name]?.[index], own)),
    })),
    factors: factors.map(({ place: at, ...factor }) => ({ ...factor, at: placeText(at) })),
    fees: Object.entries(version.fees ?? {}).flatMap(([tool, fee]) => {
      const rule = fees[tool];
      return rule === undefined
        ? []
        : [
            {
              tool,
              official_usd: formatUsd(fee.list),
              gateway_usd: formatUsd(fee.charged),
              input_tokens: fee.inputTokens,
              ...ruleJson(rule),
            },
          ];
    }),
  };
}

function tierJson(tier: PriceTier | undefined, rules: TierRules) {
  if (tier === undefined) return [];
  const rates = tokenClasses.map((name) => ({
    class: name,
    official_usd_per_million: formatRate(tier.list[name]),
    /** Class whose official rate applies: this class, or its parent if the price file states no rate for this class. */
    official_of: rules[name].listed,
    gateway_usd_per_million: formatRate(tier.charged[name]),
    ...ruleJson(rules[name]),
  }));
  return [{ from_prompt_tokens: tier.fromPromptTokens, rates }];
}

interface RuleJson {
  readonly rule: "stated" | "share" | "as";
  readonly fraction: string | null;
  readonly as: TokenClass | null;
  /** Place of the official amount. */
  readonly official_at: string | null;
  /** Place of the gateway's amount, or of what determines it; null if the class has the rate of another by default. */
  readonly gateway_at: string | null;
}

/**
 * Returns the rule that determines a rate. `stated`: the gateway's absolute rate. `share`: the fraction of the official
 * rate. `as`: the rate of the named class.
 */
function ruleJson({ rule, place, listedAt }: PlacedRule): RuleJson {
  const places = { official_at: placeText(listedAt), gateway_at: placeText(place) };
  switch (rule.kind) {
    case "stated":
      return { rule: "stated", fraction: null, as: null, ...places };
    case "share":
      return { rule: "share", fraction: rule.fraction, as: null, ...places };
    case "parent":
      return { rule: "as", fraction: null, as: rule.of, ...places };
  }
}
