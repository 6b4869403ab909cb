import { parseRate, parseUsd } from "../../core/money.ts";
import { ceilingPrice, serviceTierNames } from "../../core/price.ts";
import { statedClass, tokenClasses, type TokenClass } from "../../core/usage.ts";
import type { Catalogue } from "../../ports/catalogue.ts";
import type { PriceDifference } from "../../ports/price-import.ts";
import type { ModelOrigin, Origins } from "../build.ts";
import type { StatedFee, StatedModel, StatedPrice, StatedRates, StatedTraits } from "../schema.ts";
import { instantOf } from "../validity.ts";
import { mergeModels, type ModelInTable } from "./merge.ts";
import type { LeftOutModel, ReadTable, TableModel, TablePrice, TableServiceTiers } from "./table.ts";

interface ProposalTerms {
  /** ISO day on which new entries begin, unless their table states a later day. */
  readonly fromDate: string;
  /** Returns the text for an entry's `source`, from the names of the tables that state the entry. */
  readonly source: (tables: readonly string[]) => string;
  /** Group of new models. */
  readonly group: string;
  readonly wantsModel: (id: string) => boolean;
  /** True to propose models that no file names. */
  readonly withNew: boolean;
}

/** Full statement of a model for a price file, with its existing and its new prices. */
export interface Proposal {
  readonly id: string;
  readonly kind: "new" | "changed";
  readonly provider: string;
  readonly model: StatedModel;
  readonly added: readonly AddedPrice[];
  /**
   * Position of the model in the user's files, where the entries must be added; null if those files do not state the
   * model.
   */
  readonly ownPlace: { readonly file: string; readonly line: number } | null;
}

export interface AddedPrice {
  readonly price: StatedPrice;
  /** Price in force before this one; null if there is none. */
  readonly before: StatedPrice | null;
  /** Classes that the table does not state. Their rates come from the previous entry. */
  readonly kept: readonly TokenClass[];
}

interface Proposals {
  readonly proposals: readonly Proposal[];
  readonly unchanged: number;
  readonly differing: readonly PriceDifference[];
  readonly leftOut: readonly LeftOutModel[];
}

/** Table, with its name in messages. */
export interface NamedTable {
  readonly name: string;
  readonly table: ReadTable;
}

/**
 * Returns new dated entries for models whose price in the tables differs from the price in force. If `withNew` is set,
 * also returns models that no price file names. A pure function.
 */
export function propose(
  tables: readonly NamedTable[],
  loaded: { readonly catalogue: Catalogue; readonly origins: Origins },
  terms: ProposalTerms,
): Proposals {
  const { origins } = loaded;
  const isWanted = ({ model }: LeftOutModel) =>
    terms.wantsModel(model) &&
    (terms.withNew || loaded.catalogue.named(model, instantOf(terms.fromDate)) !== undefined);
  const leftOut: LeftOutModel[] = tables.flatMap(({ table }) => table.leftOut.filter(isWanted));
  const differing: PriceDifference[] = [];
  const proposals: Proposal[] = [];
  let unchanged = 0;
  /** Returns the merged model. Returns undefined if the tables differ on a value that every price needs. */
  const mergedOf = (id: string, found: readonly [ModelInTable, ...ModelInTable[]]): TableModel | undefined => {
    const merged = mergeModels(found, { day: terms.fromDate, tablesMin: 1 });
    differing.push(...merged.differing.map((each) => ({ ...each, model: id })));
    if (!merged.ok)
      leftOut.push({ model: id, why: `the tables differ on ${merged.differing.map((each) => each.class).join(", ")}` });
    return merged.ok ? merged.model : undefined;
  };
  const addProposal = (
    id: string,
    origin: Pick<ModelOrigin, "provider" | "block"> | { readonly provider: string; readonly block: null },
    model: StatedModel,
    found: TableModel,
    from: readonly ModelInTable[],
    kind: Proposal["kind"],
  ) => {
    const source = terms.source(from.map(({ table }) => table));
    const added = additions(model.prices ?? [], found, { ...terms, source }, (why) => leftOut.push({ model: id, why }));
    if (added.entries.length === 0) unchanged += added.refused ? 0 : 1;
    else {
      const ownPlace = origin.block !== null && origin.block.layer > 0 ? origin.block.place() : null;
      proposals.push({
        id,
        kind,
        provider: origin.provider,
        model: { ...model, prices: added.prices },
        added: added.entries,
        ownPlace,
      });
    }
  };

  const { known, unlisted } = matchModels(tables, origins);
  for (const { id, origin, found } of known) {
    if (!terms.wantsModel(id)) continue;
    const merged = mergedOf(id, found);
    if (merged !== undefined) addProposal(id, origin, wholeModel(origin), merged, found, "changed");
  }
  for (const found of terms.withNew ? unlisted : []) {
    const { id, provider } = found[0].model;
    if (!terms.wantsModel(id)) continue;
    if (proposals.some((other) => other.id === id)) {
      leftOut.push({ model: id, why: `another table states this model for the provider ${provider}` });
      continue;
    }
    // `listed`: model that the price files already find for this id; for a revision, the base model.
    const named = loaded.catalogue.find(id, instantOf(terms.fromDate));
    const listed = named === undefined || named.id === ceilingPrice ? undefined : origins.models.get(named.id);
    if (listed !== undefined && listed.provider !== provider) {
      leftOut.push({ model: id, why: `the price files state it as ${named?.id ?? ""} of ${listed.provider}` });
      continue;
    }
    const merged = mergedOf(id, found);
    if (merged === undefined) continue;
    const current = listed?.model.prices && inForce(listed.model.prices, terms.fromDate);
    const same = current !== undefined && merged.prices.every((price) => !differs(price, current, {}));
    if (same) unchanged += 1;
    else {
      const family = listed ?? [...origins.models.values()].find((each) => each.provider === provider);
      const model = newModel(merged, listed, family?.defaults ?? {}, terms.group, origins);
      if (model === undefined) leftOut.push({ model: id, why: "no table states its context size" });
      else addProposal(id, { provider, block: null }, model, merged, found, "new");
    }
  }
  return { proposals, unchanged, differing, leftOut };
}

interface MatchedModels {
  /** Models of the price files with their statements in the tables, in the order of the files. */
  readonly known: readonly {
    readonly id: string;
    readonly origin: ModelOrigin;
    readonly found: readonly [ModelInTable, ...ModelInTable[]];
  }[];
  /** Models that no price file names, each once, with its statements in the tables. */
  readonly unlisted: readonly (readonly [ModelInTable, ...ModelInTable[]])[];
}

/** Matches models of the tables with those of the price files. */
export function matchModels(tables: readonly NamedTable[], origins: Origins): MatchedModels {
  const claimed = new Set<TableModel>();
  const known = [...origins.models].flatMap(([id, origin]) => {
    if (id === ceilingPrice) return [];
    const [first, ...others] = tables.flatMap(({ name, table }): ModelInTable[] => {
      const model = tableModelOf(table.models, id, origin, origins);
      if (model !== undefined) claimed.add(model);
      return model === undefined ? [] : [{ table: name, model }];
    });
    return first === undefined ? [] : [{ id, origin, found: [first, ...others] as const }];
  });
  const unlisted = tables.flatMap(({ name, table }, index) =>
    table.models.flatMap((model): [ModelInTable, ...ModelInTable[]][] => {
      if (claimed.has(model)) return [];
      claimed.add(model);
      const others = tables.slice(index + 1).flatMap((other): ModelInTable[] => {
        const same = other.table.models.find(
          (each) => !claimed.has(each) && each.provider === model.provider && isSameModel(each, model),
        );
        if (same !== undefined) claimed.add(same);
        return same === undefined ? [] : [{ table: other.name, model: same }];
      });
      return [[{ table: name, model }, ...others]];
    }),
  );
  return { known, unlisted };
}

function isSameModel(one: TableModel, other: TableModel): boolean {
  return one.id === other.id || one.names.includes(other.id) || other.names.includes(one.id);
}

/**
 * Returns the table's model that corresponds to a model of the price files, within the same family; undefined for none.
 * Searches by the model's id, then by the table's names and patterns, then by the model's aliases. Ignores the pattern
 * of a table's model whose id is in the price files. For example, the pattern of claude-opus-5 must not match
 * claude-opus-5-5.
 */
function tableModelOf(
  models: readonly TableModel[],
  id: string,
  { provider, model }: ModelOrigin,
  { models: own }: Origins,
): TableModel | undefined {
  const family = models.filter((each) => each.provider === provider);
  return (
    family.find((each) => each.id === id) ??
    family.find((each) => each.names.includes(id)) ??
    family.find((each) => !own.has(each.id) && each.matches(id)) ??
    family.find((each) => model.aliases?.includes(each.id))
  );
}

/** Returns the model with its file's defaults. Omits `error_factor` if the model has a tokenizer. */
function wholeModel({ model, defaults }: ModelOrigin): StatedModel {
  const { error_factor, ...whole } = { ...defaults, ...model };
  return (whole.tokenizer ?? null) === null && error_factor !== undefined ? { ...whole, error_factor } : whole;
}

/** Returns the statement of a new model, without prices; undefined if its context size is unknown. */
function newModel(
  found: TableModel,
  listed: ModelOrigin | undefined,
  defaults: StatedTraits,
  group: string,
  origins: Origins,
): StatedModel | undefined {
  const {
    aliases: _,
    prices: __,
    provider: ___,
    served_as: ____,
    ...traits
  } = listed === undefined ? ({ ...defaults } as StatedModel) : wholeModel(listed);
  const contextTokens = found.contextTokens ?? traits.context_tokens;
  if (contextTokens === undefined) return undefined;
  const outputTokens =
    found.maxOutputTokens ?? (found.contextTokens === null ? traits.max_output_tokens : undefined) ?? contextTokens;
  const isUnused = (name: string) =>
    [...origins.models].every(([id, { model }]) => id !== name && !model.aliases?.includes(name));
  const aliases = found.names.filter(isUnused);
  return {
    ...(aliases.length > 0 && { aliases }),
    group,
    ...traits,
    // The new model may not use the family's published tokenizer.
    ...(listed === undefined && { tokenizer: null }),
    context_tokens: contextTokens,
    max_output_tokens: Math.min(outputTokens, contextTokens),
    prices: [],
  };
}

/**
 * Returns the model's prices together with those of the table, and a list of the added prices. `refused` is true if a
 * price could not be added.
 */
function additions(
  before: readonly StatedPrice[],
  found: TableModel,
  { fromDate, source }: { readonly fromDate: string; readonly source: string },
  refuse: (why: string) => void,
) {
  const prices = [...before];
  const entries: AddedPrice[] = [];
  let refused = false;
  const priceNow = found.prices.findLast(({ from }) => from === null || from <= fromDate);
  const later = found.prices.filter(({ from }) => from !== null && from > fromDate);
  for (const { from, price } of [
    ...(priceNow === undefined ? [] : [{ from: fromDate, price: priceNow }]),
    ...later.map((price) => ({ from: price.from ?? "", price })),
  ]) {
    const current = inForce(prices, from);
    const serviceTiers = found.serviceTiers(from);
    if (current !== undefined && !differs(price, current, serviceTiers)) continue;
    if (prices.some((each) => each.from === from)) {
      refuse(
        `the price files already state a price from ${from}; give a later --from-date, or change that price by hand`,
      );
      refused = true;
      continue;
    }
    const added = entryOf(price, serviceTiers, current ?? null, from, source);
    const index = prices.filter((each) => each.from < from).length;
    const last = prices[index - 1];
    if (last?.until !== undefined && last.until > from) {
      const { until, ...open } = last;
      prices[index - 1] = open;
      added.price = { ...added.price, until };
    }
    prices.splice(index, 0, added.price);
    entries.push({ price: added.price, before: current ?? null, kept: added.kept });
  }
  return { prices, entries, refused };
}

/** Returns the price in force on an ISO day; undefined if there is none. */
export function inForce(prices: readonly StatedPrice[], day: string): StatedPrice | undefined {
  const last = prices.findLast(({ from }) => from <= day);
  return last?.until !== undefined && last.until <= day ? undefined : last;
}

function entryOf(
  table: TablePrice,
  serviceTiers: TableServiceTiers,
  before: StatedPrice | null,
  from: string,
  source: string,
): { price: StatedPrice; kept: TokenClass[] } {
  if (table.official === null) {
    const gateway = before?.per_request?.gateway;
    return {
      price: {
        from,
        source,
        per_request: { official: table.perRequest ?? "0", ...(gateway !== undefined && { gateway }) },
        ...minimumOf(before),
        ...feesOf(table, before),
      },
      kept: [],
    };
  }
  const old = before?.official;
  const kept = tokenClasses.filter((name) => old?.[name] !== undefined && table.official?.[name] === undefined);
  const tiers = tiersOver(before?.tiers, table.tiers);
  const price: StatedPrice = {
    from,
    source,
    official: complete({ ...old, ...table.official }),
    ...(before?.gateway && { gateway: before.gateway }),
    ...minimumOf(before),
    ...(tiers.length > 0 && { ...(before?.tier_mode && { tier_mode: before.tier_mode }), tiers }),
    ...serviceTiersOf(serviceTiers, before),
    ...feesOf(table, before),
  };
  return { price, kept };
}

/** Returns the table's tiers. Takes rates that the table does not state from the same tiers of the previous entry. */
function tiersOver(before: StatedPrice["tiers"], tiers: TablePrice["tiers"]): NonNullable<StatedPrice["tiers"]> {
  return tiers.map((tier) => {
    const same = before?.find((each) => each.from_prompt_tokens === tier.from_prompt_tokens);
    return {
      ...tier,
      official: complete({ ...same?.official, ...tier.official }),
      ...(same?.gateway && { gateway: same.gateway }),
    };
  });
}

/** Returns the table's service tiers. Takes tiers and rates that the table does not state from the previous entry. */
function serviceTiersOf(table: TableServiceTiers, before: StatedPrice | null): Pick<StatedPrice, "service_tiers"> {
  const all = serviceTierNames.flatMap((name) => {
    const [stated, own] = [table[name], before?.service_tiers?.[name]];
    if (stated === undefined) return own === undefined ? [] : [[name, own] as const];
    const tiers = tiersOver(own?.tiers, stated.tiers);
    return [
      [
        name,
        {
          official: complete({ ...own?.official, ...stated.official }),
          ...(own?.gateway && { gateway: own.gateway }),
          ...(tiers.length > 0 && { tiers }),
        },
      ] as const,
    ];
  });
  return all.length === 0 ? {} : { service_tiers: Object.fromEntries(all) };
}

function minimumOf(before: StatedPrice | null): Pick<StatedPrice, "minimum"> {
  return before?.minimum === undefined ? {} : { minimum: before.minimum };
}

/** Largest number of tokens that a tool call is assumed to add to a prompt, because no table states this number. */
const assumedInputTokens = 16_000;

/** Returns the table's fees. Takes fees that the table does not state from the previous entry. */
function feesOf({ fees = {} }: TablePrice, before: StatedPrice | null): Pick<StatedPrice, "fees"> {
  const stated = Object.entries(fees).map(([tool, usd]): [string, StatedFee] => {
    const own = before?.fees?.[tool];
    return [tool, { ...own, usd, input_tokens: own?.input_tokens ?? assumedInputTokens }];
  });
  const all = { ...before?.fees, ...Object.fromEntries(stated) };
  return Object.keys(all).length === 0 ? {} : { fees: all };
}

/** Returns the fees of the table that differ from those of the price file, each with both amounts. */
function changedFees(
  after: Readonly<Record<string, string>>,
  before: StatedPrice["fees"],
): { class: string; before: string | null; after: string }[] {
  return Object.entries(after).flatMap(([tool, usd]) => {
    const was = before?.[tool]?.usd;
    return was !== undefined && parseUsd(was) === parseUsd(usd)
      ? []
      : [{ class: tool, before: was ?? null, after: usd }];
  });
}

type WholeRates = NonNullable<StatedPrice["official"]>;

/**
 * Returns the rates in the order of the token classes. The functions that read tables ensure that input and output have
 * rates.
 */
function complete(rates: StatedRates): WholeRates {
  return Object.fromEntries(
    tokenClasses.flatMap((name) => (rates[name] === undefined ? [] : [[name, rates[name]]])),
  ) as WholeRates;
}

/** Returns true if the price in the table differs from the price file's entry. */
function differs(table: TablePrice, stated: StatedPrice, serviceTiers: TableServiceTiers): boolean {
  return priceChanges(table, serviceTiers, stated).length > 0;
}

export interface PriceChange {
  readonly class: string;
  readonly before: string | null;
  readonly after: string | null;
}

/**
 * Returns the differences between the table and the price file's entry, each with both amounts. An amount that is not
 * stated is null.
 */
export function priceChanges(
  table: TablePrice,
  serviceTiers: TableServiceTiers,
  stated: StatedPrice | null,
): PriceChange[] {
  const fees = changedFees(table.fees ?? {}, stated?.fees);
  if (table.official === null) {
    const [before, after] = [stated?.per_request?.official, table.perRequest ?? ""];
    return before !== undefined && parseUsd(before) === parseUsd(after)
      ? fees
      : [{ class: "request", before: before ?? null, after }, ...fees];
  }
  const tiers = serviceTierNames.flatMap((name) => {
    const own = serviceTiers[name];
    if (own === undefined) return [];
    return changedRates(own, stated?.service_tiers?.[name]).map((each) => ({
      ...each,
      class: `${name} ${each.class}`,
    }));
  });
  return [...changedRates({ official: table.official, tiers: table.tiers }, stated), ...tiers, ...fees];
}

type RatedTiers = {
  readonly official?: StatedRates | undefined;
  readonly tiers?: readonly { readonly from_prompt_tokens: number; readonly official: StatedRates }[] | undefined;
};

/**
 * Returns the changed rates, including those of tiers for long prompts. For a removed tier, returns only its input
 * rate.
 */
function changedRates(after: RatedTiers, before: RatedTiers | null | undefined): PriceChange[] {
  const [now, was] = [after.tiers ?? [], before?.tiers ?? []];
  const tierFrom = (tiers: typeof now, from: number) => tiers.find((each) => each.from_prompt_tokens === from);
  return [
    ...changedClasses(after.official ?? {}, before?.official ?? {}),
    ...now.flatMap(({ from_prompt_tokens: from, official }) =>
      changedClasses(official, tierFrom(was, from)?.official ?? {}).map((each) => ({
        ...each,
        class: `${each.class} from ${from} tokens`,
      })),
    ),
    ...was
      .filter(({ from_prompt_tokens: from }) => tierFrom(now, from) === undefined)
      .map(({ from_prompt_tokens: from, official }) => ({
        class: `input from ${from} tokens`,
        before: official.input ?? null,
        after: null,
      })),
  ];
}

/** Returns the classes whose rate differs, each with both rates. Ignores classes that `after` does not state. */
function changedClasses(
  after: StatedRates,
  before: StatedRates,
): { class: TokenClass; before: string | null; after: string }[] {
  return tokenClasses.flatMap((name) => {
    const [now, was] = [after[name], before[statedClass(name, before)]];
    const same = now === undefined || (was !== undefined && parseRate(now) === parseRate(was));
    return same ? [] : [{ class: name, before: was ?? null, after: now }];
  });
}
