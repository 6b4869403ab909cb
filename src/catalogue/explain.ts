import type { Catalogue, FileLocation, PriceEntry, PriceExplanation, RateRule, TierRules } from "../ports/catalogue.ts";
import { ceilingPrice, serviceTierNames } from "../core/price.ts";
import { statedClass, tokenClasses } from "../core/usage.ts";
import { editDistance, nearest } from "../core/fault.ts";
import type { ModelOrigin, Origins } from "./build.ts";
import { rateRule, type Fraction, type StatedSides } from "./rates.ts";
import { sidesOf } from "./resolve.ts";
import type { StatedPrice } from "./schema.ts";

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
  if (model === undefined || origin === undefined) return undefined;
  const entries = entriesOf(origin);
  const from = model.price?.version.from;
  const index = entries.findIndex((entry) => entry.from === from);
  const [entry, price] = [entries[index], origin.model.prices?.[index]];
  return {
    foundBy: foundBy(name, model.id, origin),
    model,
    aliases: origin.model.aliases ?? [],
    place: origin,
    group: groupOf(origin, origins.groups),
    tasks: catalogue.histories().find(({ id }) => id === model.id)?.tasks ?? [],
    entries,
    inForce: entry === undefined || price === undefined ? null : { entry, ...rulesOf(price, origin.fraction) },
  };
}

/**
 * Returns known names for an unknown name, at most `namesMax`: first the most similar ones, then those that begin with
 * `name` or with which `name` begins.
 */
export function similarNames({ origins }: Loaded, name: string): string[] {
  const known = [...origins.models].flatMap(([id, { model }]) =>
    id === ceilingPrice ? [] : [id, ...(model.aliases ?? [])],
  );
  const near = nearest(name, known);
  const distance = (other: string) => editDistance(name.toLowerCase(), other.toLowerCase());
  const similar = near.filter((other) => distance(other) === distance(near[0] ?? "")).slice(0, 3);
  const extensions = known.filter(
    (other) => name.length > 1 && (other.startsWith(name) || name.startsWith(`${other}-`)),
  );
  return [...new Set([...similar, ...extensions])].slice(0, namesMax);
}

const namesMax = 5;

function foundBy(name: string, id: string, { model }: ModelOrigin): PriceExplanation["foundBy"] {
  if (id === ceilingPrice) return "default";
  if (name === id) return "id";
  return model.aliases?.includes(name) ? "alias" : "revision";
}

function entriesOf({ model, file, lines }: ModelOrigin): PriceEntry[] {
  const prices = model.prices ?? [];
  return prices.map(({ from, until }, index) => ({
    from,
    until: until ?? prices[index + 1]?.from ?? null,
    place: { file, line: lines[index] ?? 0 },
  }));
}

function groupOf(
  { model, fraction }: ModelOrigin,
  places: ReadonlyMap<string, FileLocation>,
): PriceExplanation["group"] {
  const place = typeof model.group === "string" ? places.get(model.group) : undefined;
  return fraction === null || place === undefined ? null : { name: fraction.group, fraction: fraction.text, place };
}

type Rules = Omit<NonNullable<PriceExplanation["inForce"]>, "entry">;

function rulesOf(price: StatedPrice, fraction: Fraction | null): Rules {
  const amountRule = ({ gateway }: { readonly gateway?: string | undefined }): RateRule =>
    gateway !== undefined || fraction === null ? { kind: "stated" } : { kind: "share", fraction: fraction.text };
  const tiersOf = (stated: Pick<StatedPrice, "official" | "gateway" | "tiers">) =>
    [stated, ...(stated.tiers ?? [])].map((tier) => tierRules(sidesOf(tier), fraction));
  const fees = Object.fromEntries(Object.entries(price.fees ?? {}).map(([name, fee]) => [name, amountRule(fee)]));
  if (price.per_request !== undefined)
    return { tiers: [], perRequest: amountRule(price.per_request), serviceTiers: {}, fees };
  const serviceTiers = serviceTierNames.flatMap((name) => {
    const stated = price.service_tiers?.[name];
    return stated === undefined ? [] : [[name, tiersOf(stated)] as const];
  });
  return { tiers: tiersOf(price), perRequest: null, serviceTiers: Object.fromEntries(serviceTiers), fees };
}

function tierRules(sides: StatedSides, fraction: Fraction | null): TierRules {
  const rules = tokenClasses.map((name) => {
    const listed = statedClass(name, sides.official);
    return [name, { listed, rule: rateRule(name, sides, fraction) ?? { kind: "stated" } }] as const;
  });
  return Object.fromEntries(rules) as unknown as TierRules;
}
