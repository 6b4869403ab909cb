import { invariant } from "../core/assert.ts";
import type { PriceTier, PriceVersion } from "../core/price.ts";
import { variantName, type FactorTerm } from "../core/rate-variants.ts";
import { tokenClasses } from "../core/usage.ts";
import type { DecidedPrice, DecidedTier } from "./levels.ts";
import { chargedRates, listRates, standardFactors, withFactors, type RateFactors } from "./rates.ts";
import type { StatedFactors } from "./schema.ts";

/** Returns the rates of every variant: each service tier with one factor of each term, or none. */
export function variantsOf(
  decided: DecidedPrice,
  resolved: Pick<PriceVersion, "tiers"> & Required<Pick<PriceVersion, "serviceTiers">>,
): NonNullable<PriceVersion["serviceTiers"]> {
  const standard = { name: null, of: standardFactors };
  const each = (term: FactorTerm, before: RateFactors) => [
    { ...standard, of: before },
    ...decided.factors.flatMap((own) =>
      own.term === term ? [{ name: own.name, of: withFactors(before, own.value) }] : [],
    ),
  ];
  const factored = each("inference_geo", standardFactors).flatMap((geo) =>
    each("speed", geo.of).map((speed) => ({ speed: speed.name, inferenceGeo: geo.name, of: speed.of })),
  );
  const own = [
    { serviceTier: null, base: resolved.tiers, stated: decided.tiers },
    ...[...decided.serviceTiers].flatMap(([serviceTier, stated]) => {
      const base = resolved.serviceTiers[serviceTier];
      return base === undefined ? [] : [{ serviceTier, base, stated }];
    }),
  ];
  const variants = own.flatMap(({ serviceTier, base, stated }) =>
    factored.flatMap(({ of, ...terms }) => {
      if (of === standardFactors) return [];
      const tiers = base.map((tier, index) => multiplied(tier, stated[index], decided, of));
      return [[variantName({ serviceTier, ...terms }) ?? "", tiers as unknown as PriceVersion["tiers"]] as const];
    }),
  );
  return Object.fromEntries(variants);
}

/** Returns a resolved tier with other factors. */
function multiplied(
  tier: PriceTier,
  stated: DecidedTier | undefined,
  decided: DecidedPrice,
  factors: RateFactors,
): PriceTier {
  const charged = stated && chargedRates(stated, decided, factors);
  invariant(stated !== undefined && charged?.ok === true, "a resolved tier has rates");
  return { ...tier, charged: charged.rates, list: listRates(stated.official, factors) };
}

export function factorTexts({ factors }: DecidedPrice): NonNullable<PriceVersion["factors"]> {
  return Object.fromEntries(factors.map(({ term, name, value }) => [`${term}.${name}`, factorText(value)]));
}

/** Returns factors as text: "2", or by class "input 2, cached_input 1, output 2". */
export function factorText(stated: StatedFactors): string {
  if (typeof stated === "string") return stated;
  return tokenClasses.flatMap((name) => (stated[name] === undefined ? [] : [`${name} ${stated[name]}`])).join(", ");
}
