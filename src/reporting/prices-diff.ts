import { formatRate, formatUsd, subtract, sum } from "../core/money.ts";
import type { Catalogue, CatalogueModel, ModelHistory, ModelSpan } from "../ports/catalogue.ts";
import type { LedgerQueries, WhatIfRow } from "../ports/ledger.ts";
import { dayMs, isoTime } from "../core/time.ts";
import { tierModeOf } from "./prices.ts";
import { quarterHours } from "./report.ts";
import type { ChangeJson, PresenceJson, PricesDiffJson, TrafficDiffJson } from "./shapes/commands.ts";
import { leftoversOf, rowsUnder } from "./what-if.ts";
import { inServiceTier, tierFor, type PriceVersion } from "../core/price.ts";
import { serviceTierNames } from "../core/rate-variants.ts";
import { parentClass, tokenClasses, type TokenClass } from "../core/usage.ts";

/** Number of days whose traffic is compared. */
const trafficDays = 30;

/** Compares two catalogues. Lists changes in the order of the models in `before`. */
export function diffPrices(before: Catalogue, after: Catalogue): Omit<PricesDiffJson, "traffic"> {
  const [old, current] = [byId(before), byId(after)];
  const onlyIn = (one: ReadonlyMap<string, ModelHistory>, other: ReadonlyMap<string, ModelHistory>) =>
    [...one.values()].filter(({ id }) => !other.has(id)).map(presence);
  return {
    before: before.digest,
    after: after.digest,
    added: onlyIn(current, old),
    removed: onlyIn(old, current),
    changes: [...old.values()].flatMap((model) => {
      const other = current.get(model.id);
      return other === undefined ? [] : changesOf(model, other);
    }),
  };
}

function byId(catalogue: Catalogue): ReadonlyMap<string, ModelHistory> {
  return new Map(catalogue.histories().map((model) => [model.id, model]));
}

/** Returns a model that only one catalogue has. `from`: day of its first price; null if it never has a price. */
function presence({ id, spans, tasks = [] }: ModelHistory): PresenceJson {
  const priced = [
    spans.find(({ model }) => model.price !== null),
    ...tasks.map((task) => task.spans.find(({ price }) => price !== null)),
  ];
  const starts = priced.flatMap((span) => (span === undefined ? [] : [span.start]));
  return {
    model: id,
    group: spans[0]?.model.group ?? null,
    from: starts.length === 0 ? null : dayOf(Math.min(...starts)),
  };
}

/** Computes the cost of the last 30 days under each catalogue. `now` is in milliseconds since 1970 UTC. */
export async function diffTraffic(
  ledger: LedgerQueries,
  before: Catalogue,
  after: Catalogue,
  now: number,
): Promise<TrafficDiffJson> {
  const span = quarterHours(now - trafficDays * dayMs, now);
  const query = { by: ["model" as const], ...span };
  const old = new Map((await rowsUnder(ledger, before, query)).map((row) => [row.dimensions.model, row]));
  const pairs = (await rowsUnder(ledger, after, query)).flatMap((row): Pair[] => {
    const other = old.get(row.dimensions.model);
    return other === undefined ? [] : [{ model: row.dimensions.model ?? "", before: other, after: row }];
  });
  return {
    since: isoTime(span.since),
    until: isoTime(span.until),
    rows: pairs.map((pair) => ({ model: pair.model, ...figuresOf([pair]) })),
    total: figuresOf(pairs),
    left_over: {
      before: leftoversOf(pairs.map((pair) => pair.before)),
      after: leftoversOf(pairs.map((pair) => pair.after)),
    },
  };
}

interface Pair {
  readonly model: string;
  readonly before: WhatIfRow;
  readonly after: WhatIfRow;
}

function figuresOf(pairs: readonly Pair[]) {
  const before = sum(pairs.map((pair) => pair.before.whatIf.cost));
  const after = sum(pairs.map((pair) => pair.after.whatIf.cost));
  return {
    requests: pairs.reduce((total, pair) => total + pair.after.requests, 0),
    cost_usd: formatUsd(sum(pairs.map((pair) => pair.after.cost))),
    before_usd: formatUsd(before),
    after_usd: formatUsd(after),
    difference_usd: formatUsd(subtract(after, before)),
  };
}

/**
 * Returns the changes of a model that both catalogues have, field by field. Each change has the span in which both of
 * its values apply.
 */
export function changesOf(before: ModelHistory, after: ModelHistory): ChangeJson[] {
  const spans = [before, after].flatMap((model) => [
    ...model.spans,
    ...(model.tasks ?? []).flatMap((task) => task.spans),
  ]);
  const starts = [...new Set(spans.map(({ start }) => start))].sort((a, b) => a - b);
  const running = new Map<string, OpenChange>();
  const changes: OpenChange[] = [];
  for (const start of starts) {
    const now = differences(before, after, start);
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

type Difference = Pick<ChangeJson, "field" | "from_prompt_tokens" | "before" | "after">;

interface OpenChange extends Difference {
  readonly start: number;
  until: number | null;
}

function changeJson(model: string, { before, after, start, until, ...field }: OpenChange): ChangeJson {
  return {
    model,
    ...field,
    from: Number.isFinite(start) ? dayOf(start) : null,
    until: until === null ? null : dayOf(until),
    before,
    after,
  };
}

function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

function aliasChange(before: ModelHistory, after: ModelHistory): ChangeJson[] {
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

/**
 * Returns the fields of a model that differ between two catalogues at an instant. The map is keyed by the field and its
 * prompt size.
 */
function differences(one: ModelHistory, other: ModelHistory, at: number): Map<string, Difference> {
  const [before, after] = [stateAt(one, at), stateAt(other, at)];
  const found = new Map<string, Difference>();
  const compare = (field: string, was: string | null, is: string | null, from: number | null = null) => {
    if (was !== is) found.set(`${field} ${from}`, { field, from_prompt_tokens: from, before: was, after: is });
  };
  const compareAll = (was: Terms, is: Terms) => {
    for (const name of new Set([...Object.keys(was), ...Object.keys(is)]))
      compare(name, was[name] ?? null, is[name] ?? null);
  };
  compareAll(traitsOf(before), traitsOf(after));
  const [price, otherPrice] = [before.price?.version ?? null, after.price?.version ?? null];
  compareAll(termsOf(price), termsOf(otherPrice));
  const compareRates = (prefix: string, one: PriceVersion | null, other: PriceVersion | null) => {
    for (const from of tierStarts(one, other)) {
      for (const side of ["charged", "list"] as const) {
        for (const name of tokenClasses) {
          if (followsParent(one, from, side, name) && followsParent(other, from, side, name)) continue;
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
  compareAll(taskTerms(one, at), taskTerms(other, at));
  return found;
}

/** Returns the price in a service tier; null if the price states nothing for that tier. */
function statedTier(price: PriceVersion | null, tier: string): PriceVersion | null {
  return price?.serviceTiers?.[tier] === undefined ? null : inServiceTier(price, tier);
}

/** Returns the terms of all task types. If a type has no price at the instant, its terms are null. */
function taskTerms({ tasks = [] }: ModelHistory, at: number): Terms {
  const terms = tasks.flatMap(({ taskType, spans }) => {
    const span = spans.findLast(({ start }) => start <= at);
    const price = span?.price?.version;
    const task = price?.task;
    const quantity = task && span?.quantity;
    const values = {
      per: task?.per,
      gateway: task && formatUsd(task.charged),
      official: task && formatUsd(task.list),
      fraction: task && price?.fraction,
      field: quantity?.field,
      default: quantity?.otherwise,
      max: quantity?.most,
    };
    return Object.entries(values).map(([name, value]) => [`tasks.${taskType}.${name}`, value ?? null] as const);
  });
  return Object.fromEntries(terms);
}

function tierStarts(...prices: readonly (PriceVersion | null)[]): number[] {
  const starts = prices.flatMap((price) => (price?.tiers ?? []).map((tier) => tier.fromPromptTokens));
  return [...new Set(starts)].sort((a, b) => a - b);
}

/**
 * Returns true if a class has the rate of its parent class, or if there is no price. A change is then listed only for
 * the parent.
 */
function followsParent(price: PriceVersion | null, from: number, side: "charged" | "list", name: TokenClass): boolean {
  const parent = parentClass[name];
  if (parent === null) return false;
  if (price === null) return true;
  const rates = tierFor(price, from)[side];
  return rates[name] === rates[parent];
}

function rateOf(price: PriceVersion | null, from: number, side: "charged" | "list", name: TokenClass): string | null {
  return price === null || price.perRequest !== null ? null : formatRate(tierFor(price, from)[side][name]);
}

/** Values of fields, by the name of the field. */
type Terms = Readonly<Record<string, string | null>>;

/** Returns the terms of a price other than its rates. */
function termsOf(price: PriceVersion | null): Terms {
  if (price === null) return {};
  const { fraction, perRequest, minimum, fees = {}, factors = {} } = price;
  return {
    ...Object.fromEntries(Object.entries(factors).map(([name, text]) => [`factors.${name}`, text])),
    ...Object.fromEntries(
      Object.entries(fees).flatMap(([tool, fee]) => [
        [`fees.${tool}.gateway`, formatUsd(fee.charged)],
        [`fees.${tool}.official`, formatUsd(fee.list)],
        [`fees.${tool}.input_tokens`, String(fee.inputTokens)],
      ]),
    ),
    fraction,
    tier_mode: price.tiers.length === 1 ? null : tierModeOf(price),
    "gateway.request": perRequest && formatUsd(perRequest.charged),
    "official.request": perRequest && formatUsd(perRequest.list),
    "minimum.tokens": minimum.tokens === 0 ? null : String(minimum.tokens),
    "minimum.usd": minimum.usd === 0n ? null : formatUsd(minimum.usd),
  };
}

/** Returns the properties of a model other than its price. Holds and counts depend on them. */
function traitsOf(model: CatalogueModel): Terms {
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
