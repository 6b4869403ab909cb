import { parseRate, parseUsd } from "../../core/money.ts";
import { ceilingPrice } from "../../core/price.ts";
import { statedClass, tokenClasses, type TokenClass } from "../../core/tokens.ts";
import type { Catalogue } from "../../ports/catalogue.ts";
import type { ModelOrigin, Origins } from "../origins.ts";
import type { StatedFee, StatedModel, StatedPrice, StatedRates, StatedTraits } from "../schema.ts";
import { instantOf } from "../validity.ts";
import type { LeftOut, ReadTable, TableModel, TablePrice } from "./table.ts";

export interface ProposalTerms {
  /** ISO day of the new entries whose table gives no later one. */
  readonly fromDate: string;
  readonly source: string;
  /** Group of models that are new. */
  readonly group: string;
  readonly wantsModel: (id: string) => boolean;
  /** Whether to propose models that no file names. */
  readonly withNew: boolean;
}

/** A model as it would be stated, whole: with the prices that it has, and the new ones among them. */
export interface Proposal {
  readonly id: string;
  readonly kind: "new" | "changed";
  readonly provider: string;
  readonly model: StatedModel;
  readonly added: readonly AddedPrice[];
  /** Where the user's own folder states the model already, so that the entries must be added there by hand. */
  readonly ownPlace: { readonly file: string; readonly line: number } | null;
}

export interface AddedPrice {
  readonly price: StatedPrice;
  /** What was in force before; null where nothing was. */
  readonly before: StatedPrice | null;
  /** Classes that the table leaves out, kept from the entry before. */
  readonly kept: readonly TokenClass[];
}

export interface Proposals {
  readonly proposals: readonly Proposal[];
  readonly unchanged: number;
  readonly leftOut: readonly LeftOut[];
}

/** New dated entries where the table's price is not the one in force, and models that no file names. Pure. */
export function propose(table: ReadTable, loaded: { readonly catalogue: Catalogue; readonly origins: Origins }, terms: ProposalTerms): Proposals {
  const { origins } = loaded;
  const leftOut: LeftOut[] = table.leftOut.filter(({ model }) => terms.wantsModel(model));
  const proposals: Proposal[] = [];
  const claimed = new Set<TableModel>();
  let unchanged = 0;
  const take = (id: string, origin: ModelOrigin, model: StatedModel, found: TableModel, kind: Proposal["kind"]) => {
    const added = additions(model.prices ?? [], found, terms, (why) => leftOut.push({ model: id, why }));
    if (added.entries.length === 0) unchanged += added.refused ? 0 : 1;
    else {
      const ownPlace = kind === "changed" && origin.layer > 0 ? { file: origin.file, line: origin.line } : null;
      proposals.push({ id, kind, provider: origin.provider, model: { ...model, prices: added.prices }, added: added.entries, ownPlace });
    }
  };

  for (const [id, origin] of origins.models) {
    if (id === ceilingPrice) continue;
    const found = tableModelOf(table.models, id, origin, origins);
    if (found === undefined) continue;
    claimed.add(found);
    if (terms.wantsModel(id)) take(id, origin, wholeModel(origin), found, "changed");
  }
  for (const found of terms.withNew ? table.models : []) {
    if (claimed.has(found) || !terms.wantsModel(found.id)) continue;
    const known = loaded.catalogue.find(found.id, instantOf(terms.fromDate));
    const relative = known === undefined || known.id === ceilingPrice ? undefined : origins.models.get(known.id);
    if (relative !== undefined && relative.provider !== found.provider) {
      leftOut.push({ model: found.id, why: `names ${known?.id ?? ""}, a model of ${relative.provider}, here` });
      continue;
    }
    const current = relative?.model.prices && inForce(relative.model.prices, terms.fromDate);
    const same = current !== undefined && found.prices.every((price) => !differs(price, current));
    if (same) unchanged += 1;
    else {
      const family = relative ?? [...origins.models.values()].find(({ provider }) => provider === found.provider);
      const model = newModel(found, relative, family?.defaults ?? {}, terms.group, origins);
      if (model === undefined) leftOut.push({ model: found.id, why: "its context size is not known" });
      else take(found.id, { ...emptyOrigin, provider: found.provider }, model, found, "new");
    }
  }
  return { proposals, unchanged, leftOut };
}

const emptyOrigin = { model: {}, defaults: {}, fraction: null, file: "", layer: 0, line: 0, lines: [] };

/**
 * By its id, else by what the table says of names, else by one of the names that it has here; within the family. A prefix that
 * a table gives for one model of ours (claude-opus-5) does not name another one (claude-opus-5-5).
 */
function tableModelOf(models: readonly TableModel[], id: string, { provider, model }: ModelOrigin, { models: own }: Origins): TableModel | undefined {
  const family = models.filter((each) => each.provider === provider);
  return (
    family.find((each) => each.id === id) ??
    family.find((each) => each.names.includes(id)) ??
    family.find((each) => !own.has(each.id) && each.matches(id)) ??
    family.find((each) => model.aliases?.includes(each.id))
  );
}

/** With what its file says for all of its models. */
function wholeModel({ model, defaults }: ModelOrigin): StatedModel {
  const { error_factor, ...whole } = { ...defaults, ...model };
  return (whole.tokenizer ?? null) === null && error_factor !== undefined ? { ...whole, error_factor } : whole;
}

function newModel(found: TableModel, relative: ModelOrigin | undefined, defaults: StatedTraits, group: string, origins: Origins): StatedModel | undefined {
  const { aliases: _, prices: __, provider: ___, served_as: ____, ...traits } = relative === undefined ? { ...defaults } as StatedModel : wholeModel(relative);
  const contextTokens = found.contextTokens ?? traits.context_tokens;
  if (contextTokens === undefined) return undefined;
  const outputTokens = found.maxOutputTokens ?? (found.contextTokens === null ? traits.max_output_tokens : undefined) ?? contextTokens;
  const free = (name: string) => [...origins.models].every(([id, { model }]) => id !== name && !model.aliases?.includes(name));
  const aliases = found.names.filter(free);
  return {
    ...(aliases.length > 0 && { aliases }),
    group,
    ...traits,
    // That a family's tokenizer is published says nothing of its next model.
    ...(relative === undefined && { tokenizer: null }),
    context_tokens: contextTokens,
    max_output_tokens: Math.min(outputTokens, contextTokens),
    prices: [],
  };
}

/** The prices with the table's among them, and which those are. */
function additions(before: readonly StatedPrice[], found: TableModel, { fromDate, source }: ProposalTerms, refuse: (why: string) => void) {
  const prices = [...before];
  const entries: AddedPrice[] = [];
  let refused = false;
  const now = found.prices.findLast(({ from }) => from === null || from <= fromDate);
  const later = found.prices.filter(({ from }) => from !== null && from > fromDate);
  for (const { from, price } of [...(now === undefined ? [] : [{ from: fromDate, price: now }]), ...later.map((price) => ({ from: price.from ?? "", price }))]) {
    const current = inForce(prices, from);
    if (current !== undefined && !differs(price, current)) continue;
    if (prices.some((each) => each.from === from)) {
      refuse(`another price from ${from} is stated already; give a later --from-date, or change it by hand`);
      refused = true;
      continue;
    }
    const added = entryOf(price, current ?? null, from, source);
    const place = prices.filter((each) => each.from < from).length;
    const last = prices[place - 1];
    if (last?.until !== undefined && last.until > from) {
      const { until, ...open } = last;
      prices[place - 1] = open;
      added.price = { ...added.price, until };
    }
    prices.splice(place, 0, added.price);
    entries.push({ price: added.price, before: current ?? null, kept: added.kept });
  }
  return { prices, entries, refused };
}

function inForce(prices: readonly StatedPrice[], day: string): StatedPrice | undefined {
  const last = prices.findLast(({ from }) => from <= day);
  return last?.until !== undefined && last.until <= day ? undefined : last;
}

function entryOf(table: TablePrice, before: StatedPrice | null, from: string, source: string): { price: StatedPrice; kept: TokenClass[] } {
  if (table.official === null) {
    const gateway = before?.per_request?.gateway;
    return { price: { from, source, per_request: { official: table.perRequest ?? "0", ...(gateway !== undefined && { gateway }) }, ...minimumOf(before), ...feesOf(table, before) }, kept: [] };
  }
  const old = before?.official;
  const kept = tokenClasses.filter((name) => old?.[name] !== undefined && table.official?.[name] === undefined);
  const tiers = table.tiers.map((tier) => {
    const same = before?.tiers?.find((each) => each.from_prompt_tokens === tier.from_prompt_tokens);
    return { ...tier, official: complete({ ...same?.official, ...tier.official }), ...(same?.gateway && { gateway: same.gateway }) };
  });
  const price: StatedPrice = {
    from,
    source,
    official: complete({ ...old, ...table.official }),
    ...(before?.gateway && { gateway: before.gateway }),
    ...minimumOf(before),
    ...(tiers.length > 0 && { ...(before?.tier_mode && { tier_mode: before.tier_mode }), tiers }),
    ...(before?.service_tiers && { service_tiers: before.service_tiers }),
    ...feesOf(table, before),
  };
  return { price, kept };
}

function minimumOf(before: StatedPrice | null): Pick<StatedPrice, "minimum"> {
  return before?.minimum === undefined ? {} : { minimum: before.minimum };
}

/** What one call of a tool may add to a prompt; no table states it. */
const assumedInputTokens = 16_000;

/** The table's fees, and those of the entry before that it does not state. */
function feesOf({ fees = {} }: TablePrice, before: StatedPrice | null): Pick<StatedPrice, "fees"> {
  const stated = Object.entries(fees).map(([tool, usd]): [string, StatedFee] => {
    const own = before?.fees?.[tool];
    return [tool, { ...own, usd, input_tokens: own?.input_tokens ?? assumedInputTokens }];
  });
  const all = { ...before?.fees, ...Object.fromEntries(stated) };
  return Object.keys(all).length === 0 ? {} : { fees: all };
}

/** Fees that are another one in the table, each with both amounts. */
export function changedFees(after: Readonly<Record<string, string>>, before: StatedPrice["fees"]): { class: string; before: string | null; after: string }[] {
  return Object.entries(after).flatMap(([tool, usd]) => {
    const was = before?.[tool]?.usd;
    return was !== undefined && parseUsd(was) === parseUsd(usd) ? [] : [{ class: tool, before: was ?? null, after: usd }];
  });
}

type WholeRates = NonNullable<StatedPrice["official"]>;

/** In the order of the classes; both readers see to input and output. */
function complete(rates: StatedRates): WholeRates {
  return Object.fromEntries(tokenClasses.flatMap((name) => (rates[name] === undefined ? [] : [[name, rates[name]]]))) as WholeRates;
}

/** Whether the table states another price, as far as it states one. */
export function differs(table: TablePrice, stated: StatedPrice): boolean {
  if (changedFees(table.fees ?? {}, stated.fees).length > 0) return true;
  if (table.official === null) return stated.per_request === undefined || parseUsd(stated.per_request.official) !== parseUsd(table.perRequest ?? "");
  if (stated.official === undefined) return true;
  const tiers = stated.tiers ?? [];
  if (tiers.length !== table.tiers.length) return true;
  const pairs = table.tiers.map((tier, index) => ({ tier, own: tiers[index] }));
  return (
    changedClasses(table.official, stated.official).length > 0 ||
    pairs.some(({ tier, own }) => own?.from_prompt_tokens !== tier.from_prompt_tokens || changedClasses(tier.official, own.official).length > 0)
  );
}

/** Classes whose rate is another one in `after`, of those that it states; each with both rates. */
export function changedClasses(after: StatedRates, before: StatedRates): { class: TokenClass; before: string | null; after: string }[] {
  return tokenClasses.flatMap((name) => {
    const [now, was] = [after[name], before[statedClass(name, before)]];
    const same = now === undefined || (was !== undefined && parseRate(now) === parseRate(was));
    return same ? [] : [{ class: name, before: was ?? null, after: now }];
  });
}
