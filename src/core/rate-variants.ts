/** Service tiers that a price file can state, in addition to the standard one. */
export const serviceTierNames = ["priority", "flex", "batch"] as const;

/**
 * Terms of a request whose values multiply rates, with the values for which a price file can state a factor. No value
 * may be the name of a service tier, or occur twice: the names of variants would be ambiguous.
 */
export const factorNames = { speed: ["fast"], inference_geo: ["us"] } as const;
export type FactorTerm = keyof typeof factorNames;
export const factorTerms = Object.keys(factorNames) as readonly FactorTerm[];

/** What selects rates other than the standard ones. Null stands for the standard value. */
export interface RateTerms {
  readonly serviceTier: string | null;
  readonly speed: string | null;
  readonly inferenceGeo: string | null;
}

export const standardRates: RateTerms = { serviceTier: null, speed: null, inferenceGeo: null };

/** Service tier of a request that lets the gateway choose the tier. */
export const anyServiceTier = "auto";

const standardTiers: ReadonlySet<string> = new Set(["", "default", "standard", "standard_only", "on_demand"]);
/** Since October 2026, OpenAI calls its priority tier `fast` and accepts both names. */
const serviceTierAliases: ReadonlyMap<string, string> = new Map([["fast", "priority"]]);

const wordPattern = /^[a-z][a-z0-9_.-]{0,63}$/;
const factorValues: ReadonlySet<string> = new Set(Object.values(factorNames).flat());

/** Returns the canonical name of a stated service tier; null for the standard tier. */
export function serviceTierOf(stated: unknown): string | null {
  if (stated === undefined || stated === null) return null;
  const name = typeof stated === "string" ? stated.toLowerCase() : "";
  if (typeof stated === "string" && standardTiers.has(name)) return null;
  const tier = serviceTierAliases.get(name) ?? name;
  return wordPattern.test(tier) && !factorValues.has(tier) ? tier : "unknown";
}

/** `not_available`: an answer of a model for which the region cannot be chosen. */
const standardValues: Readonly<Record<FactorTerm, ReadonlySet<string>>> = {
  speed: new Set(["standard"]),
  inference_geo: new Set(["global", "not_available"]),
};

/**
 * Returns the canonical name of a stated speed or region; null for the standard one. Another name than those of
 * `factorNames` begins with the term, so that it is not mistaken for a service tier: "speed:turbo".
 */
export function factorValueOf(term: FactorTerm, stated: unknown): string | null {
  if (stated === undefined || stated === null) return null;
  const name = typeof stated === "string" ? stated.toLowerCase() : "";
  if (standardValues[term].has(name)) return null;
  if (factorNames[term].some((each) => each === name)) return name;
  return `${term}:${wordPattern.test(name) ? name : "unknown"}`;
}

/** Returns true if a field of a request selects rates. */
export function isRateTerm(field: string | undefined): boolean {
  return field === "service_tier" || factorTerms.some((term) => term === field);
}

/** Returns the name of the rates for these terms, such as "batch+fast+us"; null for the standard rates. */
export function variantName({ serviceTier, speed, inferenceGeo }: RateTerms): string | null {
  const parts = [serviceTier, speed, inferenceGeo].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join(separator);
}

/**
 * Returns the name of the rates of which a price knows all parts, in the order of a name; null for the standard rates.
 * Any price that knows two parts also knows both together.
 */
export function knownVariant(name: string, isKnown: (name: string) => boolean): string | null {
  const known = isKnown(name) ? [name] : name.split(separator).filter(isKnown);
  return known.length === 0 ? null : known.join(separator);
}

const separator = "+";
