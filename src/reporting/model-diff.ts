import { formatRate, formatUsd } from "../core/money.ts";
import { inServiceTier, serviceTierNames, tierFor, type PriceVersion } from "../core/price.ts";
import { parentClass, tokenClasses, type TokenClass } from "../core/usage.ts";
import type { CatalogueModel, ModelHistory, ModelSpan } from "../ports/catalogue.ts";

/** Difference in one field of a model between two catalogues, over a span of days. */
export interface Change {
  readonly model: string;
  /** Name of the field as in a price file: `gateway.input`, `official.output`, `minimum.usd`, `fraction`, `context_tokens`. */
  readonly field: string;
  /** Prompt size at which a rate begins to apply, in tokens; null for other fields. */
  readonly from_prompt_tokens: number | null;
  /** Half-open span of ISO days. A null bound means no limit on that side. */
  readonly from: string | null;
  readonly until: string | null;
  /** Value in the first catalogue; null if it has none. Rates are in USD per million tokens. */
  readonly before: string | null;
  readonly after: string | null;
}

/** Returns the changes of a model that both catalogues have, field by field. A span lasts while both of its values apply. */
export function changesOf(before: ModelHistory, after: ModelHistory): Change[] {
  const spans = [before, after].flatMap((model) => [
    ...model.spans,
    ...(model.tasks ?? []).flatMap((task) => task.spans),
  ]);
  const starts = [...new Set(spans.map(({ start }) => start))].sort((a, b) => a - b);
  const running = new Map<string, OpenChange>();
  const changes: OpenChange[] = [];
  for (const start of starts) {
    const now = new Map([
      ...differences(stateAt(before, start), stateAt(after, start)),
      ...taskDifferences(before, after, start),
    ]);
    for (const [name, open] of running) {
      const same = now.get(name);
      if (same?.before === open.before && same.after === open.after) continue;
      open.until = start;
      running.delete(name);
    }
    for (const [name, difference] of now) {
      if (running.has(name)) continue;
      const open: OpenChange = { ...difference, start, until: null };
      running.set(name, open);
      changes.push(open);
    }
  }
  return [...aliasChange(before, after), ...changes.map((change) => changeJson(before.id, change))];
}

interface Difference {
  readonly field: Field;
  readonly before: string | null;
  readonly after: string | null;
}

interface OpenChange extends Difference {
  readonly start: number;
  until: number | null;
}

function changeJson(model: string, { field, before, after, start, until }: OpenChange): Change {
  return {
    model,
    field: field.name,
    from_prompt_tokens: field.fromPromptTokens,
    from: Number.isFinite(start) ? dayOf(start) : null,
    until: until === null ? null : dayOf(until),
    before,
    after,
  };
}

export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

function aliasChange(before: ModelHistory, after: ModelHistory): Change[] {
  const lost = before.aliases.filter((name) => !after.aliases.includes(name));
  const gained = after.aliases.filter((name) => !before.aliases.includes(name));
  if (lost.length === 0 && gained.length === 0) return [];
  const listed = (names: readonly string[]) => (names.length === 0 ? null : names.join(", "));
  return [
    {
      model: before.id,
      field: "aliases",
      from_prompt_tokens: null,
      from: null,
      until: null,
      before: listed(lost),
      after: listed(gained),
    },
  ];
}

function stateAt({ spans }: ModelHistory, start: number): CatalogueModel {
  const [first, ...rest] = spans as readonly [ModelSpan, ...ModelSpan[]];
  return rest.reduce((found, span) => (span.start <= start ? span : found), first).model;
}

interface Field {
  readonly name: string;
  readonly fromPromptTokens: number | null;
}

function differences(before: CatalogueModel, after: CatalogueModel): Map<string, Difference> {
  const found = new Map<string, Difference>();
  const compare = (name: string, one: string | null, other: string | null, fromPromptTokens: number | null = null) => {
    if (one !== other)
      found.set(`${name} ${fromPromptTokens}`, { field: { name, fromPromptTokens }, before: one, after: other });
  };
  const [traits, otherTraits] = [traitsOf(before), traitsOf(after)];
  for (const [name, value] of Object.entries(traits)) compare(name, value, otherTraits[name] ?? null);
  const [price, otherPrice] = [before.price?.version ?? null, after.price?.version ?? null];
  const [terms, otherTerms] = [termsOf(price), termsOf(otherPrice)];
  for (const name of new Set([...Object.keys(terms), ...Object.keys(otherTerms)]))
    compare(name, terms[name] ?? null, otherTerms[name] ?? null);
  const compareRates = (prefix: string, one: PriceVersion | null, other: PriceVersion | null) => {
    for (const from of tierStarts(one, other)) {
      for (const side of ["charged", "list"] as const) {
        for (const name of tokenClasses) {
          if (follows(one, from, side, name) && follows(other, from, side, name)) continue;
          compare(
            `${prefix}${side === "charged" ? "gateway" : "official"}.${name}`,
            rateOf(one, from, side, name),
            rateOf(other, from, side, name),
            from,
          );
        }
      }
    }
  };
  compareRates("", price, otherPrice);
  for (const tier of serviceTierNames)
    compareRates(`service_tiers.${tier}.`, statedTier(price, tier), statedTier(otherPrice, tier));
  return found;
}

/** Returns the price in a service tier; null if the price states nothing for that tier. */
function statedTier(price: PriceVersion | null, tier: string): PriceVersion | null {
  return price?.serviceTiers?.[tier] === undefined ? null : inServiceTier(price, tier);
}

function taskDifferences(before: ModelHistory, after: ModelHistory, start: number): Map<string, Difference> {
  const found = new Map<string, Difference>();
  const types = new Set([before, after].flatMap(({ tasks }) => (tasks ?? []).map(({ taskType }) => taskType)));
  for (const taskType of types) {
    const [terms, otherTerms] = [taskTerms(before, taskType, start), taskTerms(after, taskType, start)];
    for (const name of new Set([...Object.keys(terms), ...Object.keys(otherTerms)])) {
      const [one, other] = [terms[name] ?? null, otherTerms[name] ?? null];
      const field = { name: `tasks.${taskType}.${name}`, fromPromptTokens: null };
      if (one !== other) found.set(field.name, { field, before: one, after: other });
    }
  }
  return found;
}

function taskTerms({ tasks }: ModelHistory, taskType: string, at: number): Record<string, string | null> {
  const span = tasks?.find((task) => task.taskType === taskType)?.spans.findLast(({ start }) => start <= at);
  const price = span?.price?.version;
  if (span === undefined || price?.task === undefined) return {};
  const { field, otherwise, most } = span.quantity;
  const { per, charged, list } = price.task;
  return {
    per,
    gateway: formatUsd(charged),
    official: formatUsd(list),
    fraction: price.fraction,
    field,
    default: otherwise,
    max: most,
  };
}

function tierStarts(...prices: readonly (PriceVersion | null)[]): number[] {
  const starts = prices.flatMap((price) => (price?.tiers ?? []).map((tier) => tier.fromPromptTokens));
  return [...new Set(starts)].sort((a, b) => a - b);
}

/** Returns true if a class has the rate of its parent class. Its change is then listed only for the parent. */
function follows(price: PriceVersion | null, from: number, side: "charged" | "list", name: TokenClass): boolean {
  const parent = parentClass[name];
  if (parent === null) return false;
  if (price === null) return true;
  const rates = tierFor(price, from)[side];
  return rates[name] === rates[parent];
}

function rateOf(price: PriceVersion | null, from: number, side: "charged" | "list", name: TokenClass): string | null {
  return price === null || price.perRequest !== null ? null : formatRate(tierFor(price, from)[side][name]);
}

/** Returns the terms of a price other than its rates. */
function termsOf(price: PriceVersion | null): Record<string, string | null> {
  if (price === null) return {};
  const { fraction, perRequest, minimum, fees = {} } = price;
  return {
    ...Object.fromEntries(
      Object.entries(fees).flatMap(([tool, fee]) => [
        [`fees.${tool}.gateway`, formatUsd(fee.charged)],
        [`fees.${tool}.official`, formatUsd(fee.list)],
        [`fees.${tool}.input_tokens`, String(fee.inputTokens)],
      ]),
    ),
    fraction,
    tier_mode: price.tiers.length === 1 ? null : price.tierMode,
    "gateway.request": perRequest && formatUsd(perRequest.charged),
    "official.request": perRequest && formatUsd(perRequest.list),
    "minimum.tokens": minimum.tokens === 0 ? null : String(minimum.tokens),
    "minimum.usd": minimum.usd === 0n ? null : formatUsd(minimum.usd),
  };
}

/** Returns the properties of a model other than its price. Holds and counts depend on them. */
function traitsOf(model: CatalogueModel): Record<string, string | null> {
  return {
    provider: model.provider,
    group: model.group,
    context_tokens: String(model.contextTokens),
    max_output_tokens: String(model.outputTokensMax),
    max_output_field: fieldsText(model.maxOutputField),
    tokenizer: model.tokenizerIsPublic ? model.encoding : null,
    streams: model.streams,
    error_factor: String(model.errorFactor / 1000),
    tokens_per_byte: String(model.tokensPerByte / 1000),
    image_part_tokens: textOrNull(model.imagePartTokens),
    image_tokens: model.imageRule === null ? null : Object.values(model.imageRule).join(" "),
    prompt_form: model.promptForm,
    audio_part_tokens: textOrNull(model.audioPartTokens),
    file_part_tokens: textOrNull(model.filePartTokens),
    reasoning: String(model.reasons),
    tokens_per_second: String(model.tokensPerSecond),
    bills_server_errors: String(model.billsServerErrors),
    served_as: model.servedAs.join(", ") || null,
    obeys_max_tool_calls: String(model.obeysMaxToolCalls),
  };
}

/** Formats fields as "chat max_tokens, responses max_output_tokens"; returns null if there are none. */
export function fieldsText(fields: CatalogueModel["maxOutputField"]): string | null {
  return (
    Object.entries(fields)
      .map(([api, field]) => `${api} ${field}`)
      .join(", ") || null
  );
}

function textOrNull(value: number | null): string | null {
  return value === null ? null : String(value);
}
