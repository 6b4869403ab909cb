import { isDeepStrictEqual } from "node:util";
import { ceilingPrice } from "../../core/price.ts";
import type { Catalogue } from "../../ports/catalogue.ts";
import type { PriceDifference, PriceImport } from "../../ports/price-import.ts";
import type { ModelOrigin, Origins } from "../build.ts";
import { figuresOf } from "../changes.ts";
import type { StatedChange, StatedModel, StatedPrice, StatedTraits } from "../schema.ts";
import { dayOf, instantOf } from "../validity.ts";
import { amountsOn, changeTo, differences, entryOf, type Amounts } from "./difference.ts";
import { mergeModels, type ModelInTable } from "./merge.ts";
import type { LeftOutModel, ReadTable, TableModel, TablePrice } from "./table.ts";

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

type Entries = PriceImport["proposed"][number]["entries"];

/** Statement of a model for a price file: the changes of a known model, or the whole of a new one. */
export interface Proposal {
  readonly id: string;
  readonly kind: "new" | "changed";
  readonly provider: string;
  readonly statement: Pick<StatedModel, "change" | "changes"> | StatedModel;
  readonly entries: Entries;
  /** What the user should check, by the day of an entry. */
  readonly remarks: ReadonlyMap<string, readonly string[]>;
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
 * Returns dated changes of models whose amounts in the tables differ from those in force. If `withNew` is set, also
 * returns models that no price file names. A pure function.
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
  const sourceOf = (found: readonly ModelInTable[]) => terms.source(found.map(({ table }) => table));

  const { known, unlisted } = matchModels(tables, origins);
  for (const { id, origin, found } of known) {
    if (!terms.wantsModel(id)) continue;
    const merged = mergedOf(id, found);
    if (merged === undefined) continue;
    const own = changesOf(id, loaded, datedPrices(merged, terms.fromDate), merged, sourceOf(found));
    leftOut.push(...own.problems.map((why) => ({ model: id, why })));
    const [first, ...later] = own.changes;
    if (first === undefined) unchanged += own.problems.length > 0 ? 0 : 1;
    else {
      const statement = later.length === 0 ? { change: first } : { changes: own.changes };
      const { entries, remarks } = own;
      proposals.push({ id, kind: "changed", provider: origin.provider, statement, entries, remarks });
    }
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
    const current = listed && amountsOn(terms.fromDate, named?.id ?? "", listed);
    if (current && merged.prices.every((price) => differences(price, {}, current).length === 0)) {
      unchanged += 1;
      continue;
    }
    const family = listed ?? [...origins.models.values()].find((each) => each.provider === provider);
    const traits = traitsOf(merged, listed, family?.defaults ?? {}, loaded.catalogue);
    if (traits === undefined) {
      leftOut.push({ model: id, why: "no table states its context size" });
      continue;
    }
    const { prices, entries, remarks } = pricesOf(merged, terms.fromDate, sourceOf(found));
    const statement = { provider, group: terms.group, ...traits, prices };
    proposals.push({ id, kind: "new", provider, statement, entries, remarks });
  }
  return { proposals, unchanged, differing, leftOut };
}

interface DatedPrice {
  readonly from: string;
  readonly price: TablePrice;
}

/** Returns the price of a table in force on the day, and those that the table announces for later. */
function datedPrices({ prices }: TableModel, fromDate: string): readonly DatedPrice[] {
  const now = prices.findLast(({ from }) => from === null || from <= fromDate);
  const later = prices.flatMap((price) =>
    price.from !== null && price.from > fromDate ? [{ from: price.from, price }] : [],
  );
  return [...(now === undefined ? [] : [{ from: fromDate, price: now }]), ...later];
}

/**
 * Returns the changes after which a known model has the amounts of the table. A change ends where the price files announce
 * other amounts for what it changes.
 */
function changesOf(
  id: string,
  { origins }: { readonly origins: Origins },
  dated: readonly DatedPrice[],
  found: TableModel,
  source: string,
) {
  const origin = origins.models.get(id) as ModelOrigin;
  const announced = announcedDays(id, origin, origins);
  const changes: StatedChange[] = [];
  const entries: Entries[number][] = [];
  const problems: string[] = [];
  const remarks = new Map<string, string[]>();
  for (const { from, price } of dated) {
    const now = amountsOn(from, id, origin, changes);
    if (now === null) {
      problems.push(`the price files state no price on ${from}; give a later --from-date, or state it yourself`);
      continue;
    }
    const serviceTiers = found.serviceTiers(from);
    const differing = differences(price, serviceTiers, now);
    if (differing.length === 0) continue;
    const made = changeTo(price, serviceTiers, now);
    const problem = made.ok ? alreadyChanged(id, from, made.change, origins) : made.problem;
    if (!made.ok || problem !== undefined) {
      problems.push(problem ?? "");
      continue;
    }
    const stays = (later: Amounts | null) =>
      later === null ||
      (isDeepStrictEqual(differences(price, serviceTiers, later), differing) &&
        isDeepStrictEqual(changeTo(price, serviceTiers, later), made));
    const until = announced.find((each) => each > from && !stays(amountsOn(each, id, origin, changes)));
    changes.push({ from, ...(until !== undefined && { until }), source, ...made.change });
    entries.push({ from, changes: differing });
    remarks.set(from, remarksOf(made.change, now));
  }
  return { changes, entries, problems, remarks };
}

/**
 * Returns the days on which the price files may change the amounts of a model, in ascending order. Leaves out the changes
 * of its id, because the later ones of them precede an import.
 */
function announcedDays(id: string, { model }: ModelOrigin, { changes }: Origins): string[] {
  const byPattern = changes.filter(({ models, effect }) => models !== id && effect.models.has(id));
  const instants = byPattern.flatMap(({ start, end }) => [start, end]).filter((instant) => Number.isFinite(instant));
  return [...(model.prices ?? []).map(({ from }) => from), ...instants.map(dayOf)].sort();
}

/**
 * Returns a problem if a change of the user's files that begins on the same day states one of the amounts, or any tier:
 * which of the two changes applies would depend on the names of their files.
 */
function alreadyChanged(id: string, from: string, change: StatedChange, origins: Origins): string | undefined {
  const names = new Set(namesOf(change));
  for (const { models, stated, block } of origins.changes) {
    if (models !== id || stated.from !== from) continue;
    const name = namesOf(stated).find((each) => names.has(each));
    if (name !== undefined)
      return `${block.place().file} already changes ${name} from ${from}; give a later --from-date`;
  }
  return undefined;
}

/** Returns the names of the figures of a change. All tiers are one name, as are the parts of a fee or a service tier. */
function namesOf(change: StatedChange): string[] {
  return figuresOf(change).map(({ name }) => name.replace(/^(tiers|(?:fees|service_tiers)\.[^.]+)\..*/, "$1"));
}

/** Returns remarks on what the user should check in a change or in a new price. `now`: null for a new price. */
function remarksOf({ fees = {} }: Pick<StatedChange, "fees">, now: Amounts | null): string[] {
  const remarks: string[] = [];
  if (Object.keys(now?.gateway ?? {}).length > 0 || now?.per_request?.gateway !== undefined)
    remarks.push("the gateway's own rates stay in force: check that they still apply");
  if (Object.keys(fees).some((tool) => now?.fees?.[tool] === undefined))
    remarks.push("input_tokens of a new fee is assumed: the table states none");
  return remarks;
}

/** Returns the prices of a new model. Each keeps the amounts of the previous price that the table does not state. */
function pricesOf(found: TableModel, fromDate: string, source: string) {
  const prices: StatedPrice[] = [];
  const entries: Entries[number][] = [];
  const remarks = new Map<string, string[]>();
  for (const { from, price } of datedPrices(found, fromDate)) {
    const before = prices.at(-1) ?? null;
    const serviceTiers = found.serviceTiers(from);
    const differing = differences(price, serviceTiers, before);
    if (differing.length === 0) continue;
    const amounts = entryOf(price, serviceTiers, before);
    prices.push({ from, source, ...amounts });
    entries.push({ from, changes: differing });
    remarks.set(from, remarksOf(amounts, before === null ? null : { fees: before.fees }));
  }
  return { prices, entries, remarks };
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

/**
 * Returns the statement of a new model, without group and prices; undefined if its context size is unknown. `listed`: the
 * model of the price files of which it is a revision.
 */
function traitsOf(
  found: TableModel,
  listed: ModelOrigin | undefined,
  defaults: StatedTraits,
  catalogue: Catalogue,
): StatedModel | undefined {
  const base: StatedModel = listed === undefined ? defaults : { ...listed.defaults, ...listed.model };
  const { aliases: _, prices: __, provider: ___, served_as: ____, error_factor, ...traits } = base;
  const contextTokens = found.contextTokens ?? traits.context_tokens;
  if (contextTokens === undefined) return undefined;
  const outputTokens =
    found.maxOutputTokens ?? (found.contextTokens === null ? traits.max_output_tokens : undefined) ?? contextTokens;
  const taken = new Set(catalogue.histories().flatMap(({ id, aliases }) => [id, ...aliases]));
  const aliases = found.names.filter((name) => !taken.has(name));
  // A new model may not use the family's published tokenizer.
  const tokenizer = listed === undefined ? null : (traits.tokenizer ?? null);
  return {
    ...(aliases.length > 0 && { aliases }),
    ...traits,
    ...((listed === undefined || traits.tokenizer !== undefined) && { tokenizer }),
    ...(tokenizer === null && error_factor !== undefined && { error_factor }),
    context_tokens: contextTokens,
    max_output_tokens: Math.min(outputTokens, contextTokens),
  };
}
