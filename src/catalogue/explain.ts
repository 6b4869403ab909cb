import type {
  Catalogue,
  ChangeExplanation,
  EmptyGroup,
  FileLocation,
  PlacedRule,
  PriceEntry,
  PriceExplanation,
  TierRules,
  UnlikelyRates,
} from "../ports/catalogue.ts";
import { ceilingPrice, type PriceTier } from "../core/price.ts";
import { serviceTierNames } from "../core/rate-variants.ts";
import { statedClass, tokenClasses } from "../core/usage.ts";
import { hasVariant } from "../core/bounds.ts";
import { editDistance, nearest } from "../core/fault.ts";
import { baseName } from "../core/model-names.ts";
import type { ModelOrigin, Origins } from "./build.ts";
import { factorText } from "./factors.ts";
import { decidePrice, type DecidedPrice, type DecidedTier } from "./levels.ts";
import { rateRule, type DecidedAmount, type ShareTerms } from "./rates.ts";
import type { Decided } from "./read.ts";
import { countsTokens, traitPlaces } from "./resolve.ts";
import { validities } from "./validity.ts";

export interface Loaded {
  readonly catalogue: Catalogue;
  readonly origins: Origins;
}

/**
 * Explains the price of a model at an instant. Accepts any of the model's names. Returns undefined for a name that the
 * price files do not cover.
 */
export function explainPrice({ catalogue, origins }: Loaded, name: string, at: number): PriceExplanation | undefined {
  const model = catalogue.find(name, at);
  const origin = model && origins.models.get(model.id);
  const history = catalogue.histories().find(({ id }) => id === model?.id);
  if (model === undefined || origin === undefined || history === undefined) return undefined;
  const entries = entriesOf(origin);
  const levels = origin.levels.at(at);
  const decided = decidedAt(model.id, origin, at);
  const entry = entries[decided?.index ?? -1];
  const { fraction = null } = decided?.price ?? {};
  return {
    foundBy: foundBy(name, model.id, history.aliases),
    model,
    aliases: history.aliases,
    place: origin.block.place(),
    group:
      levels.group === null || fraction === null
        ? null
        : { name: levels.group, fraction: fraction.value, place: fraction.block.place() },
    tasks: history.tasks ?? [],
    entries,
    traits: traitPlaces(origin, levels.changes),
    inForce: decided === null || entry === undefined ? null : { entry, ...rulesOf(decided.price) },
  };
}

/** Returns what each change of the price files changes, in the order of the files. */
export function explainChanges({ catalogue, origins }: Loaded, at: number): readonly ChangeExplanation[] {
  const models = new Map(catalogue.list(at).map((model) => [model.id, model]));
  return origins.changes.map(({ models: of, stated, block, effect }) => {
    const changed = [...effect.models];
    const { tiers = [], service_tiers: serviceTiers = {}, fraction } = stated;
    const statesRates = (stated.official !== undefined || stated.gateway !== undefined) && fraction === undefined;
    const keepsOtherRates = (id: string) => {
      const version = models.get(id)?.price?.version;
      const isStated = ({ fromPromptTokens: from }: PriceTier) =>
        tiers.some((tier) => tier.from_prompt_tokens === from);
      return (
        version !== undefined &&
        (version.tiers.some((tier) => tier.fromPromptTokens > 0 && !isStated(tier)) ||
          serviceTierNames.some((name) => hasVariant(version, name) && serviceTiers[name] === undefined))
      );
    };
    return {
      of,
      place: block.place(),
      from: stated.from ?? null,
      until: stated.until ?? null,
      models: changed,
      aliases: stated.aliases ?? [],
      misfits: [...effect.misfits].map(([part, ids]) => ({ part, models: ids })),
      standardOnly: statesRates ? changed.filter(keepsOtherRates) : [],
    };
  });
}

/**
 * Returns the models whose gateway rates of input or output are far from the official ones, at an instant or on the first
 * day of a later change. Rates of 0 do not count.
 */
export function unlikelyRates({ catalogue, origins }: Loaded, at: number): readonly UnlikelyRates[] {
  const found = { low: new Set<string>(), high: new Set<string>() };
  for (const instant of instantsFrom(at, origins)) {
    for (const { id, price } of catalogue.list(instant)) {
      const [tier] = price?.version.tiers ?? [];
      for (const name of tier === undefined ? [] : (["input", "output"] as const)) {
        const [rate, official] = [tier?.charged[name] ?? 0n, tier?.list[name] ?? 0n];
        if (rate === 0n || official === 0n) continue;
        if (rate * lowest < official) found.low.add(id);
        if (rate > official * highest) found.high.add(id);
      }
    }
  }
  return (["low", "high"] as const).flatMap((are) => (found[are].size === 0 ? [] : [{ are, models: [...found[are]] }]));
}

/** Returns the groups that only the user's files state and that no model is in, at an instant or later. */
export function emptyGroups({ catalogue, origins }: Loaded, at: number): readonly EmptyGroup[] {
  const used = new Set(
    instantsFrom(at, origins).flatMap((instant) => catalogue.list(instant).map(({ group }) => group)),
  );
  return [...origins.groups].flatMap(([group, [first]]) =>
    first === undefined || first.block.layer === 0 || used.has(group) ? [] : [{ group, place: first.block.place() }],
  );
}

/** Returns an instant and the beginnings of later changes. */
function instantsFrom(at: number, { changes }: Origins): number[] {
  const starts = changes.flatMap(({ start }) => (start > at ? [start] : []));
  return [...new Set([at, ...starts])];
}

/** A gateway's rate is unlikely below one part in `lowest` of the official rate, and above `highest` times that rate. */
const lowest = 100n;
const highest = 10n;

/** Returns the price of a model that is in force at an instant, and its index in the model's file. */
export function decidedAt(
  id: string,
  origin: ModelOrigin,
  at: number,
): { readonly index: number; readonly price: DecidedPrice } | null {
  const { model, levels } = origin;
  const block = origin.block.at("prices");
  const prices = model.prices ?? [];
  const index = validities(prices, block).findIndex(({ start, end }) => start <= at && at < (end ?? Infinity));
  const price = prices[index];
  if (price === undefined) return null;
  return {
    index,
    price: decidePrice({ id, countsTokens: countsTokens(origin) }, price, block.at(index), levels.at(at)),
  };
}

/**
 * Returns known names for an unknown name, at most `namesMax`: first the most similar ones, then those that begin with
 * `name` or with which `name` begins.
 */
export function similarNames({ catalogue }: Pick<Loaded, "catalogue">, name: string): string[] {
  const known = catalogue.histories().flatMap(({ id, aliases }) => (id === ceilingPrice ? [] : [id, ...aliases]));
  const near = nearest(name, known);
  const distance = (other: string) => editDistance(name.toLowerCase(), other.toLowerCase());
  const similar = near.filter((other) => distance(other) === distance(near[0] ?? "")).slice(0, 3);
  const extensions = known.filter(
    (other) => name.length > 1 && (other.startsWith(name) || name.startsWith(`${other}-`)),
  );
  return [...new Set([...similar, ...extensions])].slice(0, namesMax);
}

const namesMax = 5;

function foundBy(name: string, id: string, aliases: readonly string[]): PriceExplanation["foundBy"] {
  if (id === ceilingPrice) return "default";
  if (name === id) return "id";
  const isStated = (text = "") => text === id || aliases.includes(text);
  if (isStated(name)) return "alias";
  return isStated(baseName(name)) ? "revision" : "spelling";
}

function entriesOf({ model, block }: ModelOrigin): PriceEntry[] {
  const here = block.at("prices");
  return validities(model.prices ?? [], here).map(({ from, until }, index) => ({
    from,
    until,
    place: here.at(index).place(),
  }));
}

type Rules = Omit<NonNullable<PriceExplanation["inForce"]>, "entry">;

function rulesOf(price: DecidedPrice): Rules {
  const { perRequest, fees, serviceTiers, factors, tiers, minimum } = price;
  const rulesOfTiers = (own: readonly DecidedTier[]) => own.map((tier) => tierRules(tier, price));
  return {
    tiers: perRequest === null ? rulesOfTiers(tiers) : [],
    perRequest: perRequest ? amountRule(perRequest, price) : null,
    serviceTiers: Object.fromEntries([...serviceTiers].map(([name, own]) => [name, rulesOfTiers(own)])),
    factors: factors.map(({ term, name, value, block }) => ({
      field: term,
      value: name,
      factors: factorText(value),
      place: block.place(),
    })),
    fees: Object.fromEntries([...fees].map(([name, fee]) => [name, amountRule(fee, price)])),
    minimum: placeOf(minimum),
  };
}

function amountRule({ official, gateway }: DecidedAmount, { fraction }: ShareTerms): PlacedRule {
  const listedAt = placeOf(official);
  return gateway !== undefined || fraction === null
    ? { rule: { kind: "stated" }, place: placeOf(gateway), listedAt }
    : { rule: { kind: "share", fraction: fraction.value }, place: placeOf(fraction), listedAt };
}

function tierRules(tier: DecidedTier, terms: ShareTerms): TierRules {
  const rules = tokenClasses.map((name) => {
    const listed = statedClass(name, tier.official);
    const listedAt = placeOf(tier.official[listed]);
    return [name, { listed, ...placedRule(rateRule(name, tier, terms)), listedAt }] as const;
  });
  return Object.fromEntries(rules) as unknown as TierRules;
}

function placedRule(rule: ReturnType<typeof rateRule>): Pick<PlacedRule, "rule" | "place"> {
  switch (rule?.kind) {
    case "share":
      return { rule: { kind: "share", fraction: rule.fraction.value }, place: placeOf(rule.fraction) };
    case "parent":
      return { rule: { kind: "parent", of: rule.of }, place: placeOf(rule.by) };
    default:
      return { rule: { kind: "stated" }, place: placeOf(rule?.rate) };
  }
}

function placeOf(decided: Decided<unknown> | null | undefined): FileLocation | null {
  return decided?.block.place() ?? null;
}
