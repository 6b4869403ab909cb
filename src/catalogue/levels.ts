import { factorNames, factorTerms, serviceTierNames, type FactorTerm } from "../core/rate-variants.ts";
import { tokenClasses, type TokenClass } from "../core/usage.ts";
import type { Effect } from "./effects.ts";
import {
  cacheClasses,
  cacheWords,
  rateOf,
  type DecidedAmount,
  type DecidedSides,
  type Fraction,
  type ShareTerms,
} from "./rates.ts";
import type { Block, Decided } from "./read.ts";
import type { StatedChange, StatedFactors, StatedPrice, StatedRates } from "./schema.ts";

/**
 * A statement about several models that helps to decide a model's price: a file's `gateway`, a group, or a change. The
 * statement of the model itself is a level too.
 */
export interface Level {
  /** The statement in messages, such as `group "half"`. */
  readonly by: string;
  readonly stated: StatedChange;
  readonly block: Block;
  readonly effect: Effect;
}

/** Levels that apply to a model at an instant, each in the order from the lowest to the highest. */
export interface Levels {
  /** Levels that the model's own statement precedes. */
  readonly below: readonly Level[];
  readonly above: readonly Level[];
  /** The group that a change assigns to the model; null if none does. */
  readonly assigned: Decided<string> | null;
}

export interface DecidedTier extends DecidedSides {
  /** Null for the tier that begins at 0; undefined if a fault removed the value. */
  readonly from: Decided<number> | null | undefined;
  /** Blocks that state rates of the tier, from the lowest to the highest level. */
  readonly blocks: readonly [Block, ...Block[]];
}

export interface DecidedFee extends DecidedAmount {
  readonly inputTokens: Decided<number>;
}

/** Fields of a change that state rates. */
const rateFields = ["official", "gateway", "tiers", "service_tiers", "factors", "tier_mode"] as const;

/** Fields of a change that state amounts, or how amounts are computed. */
export const priceFields = [
  "fraction",
  "minimum",
  ...cacheClasses,
  "fees",
  "per_request",
  ...rateFields,
] as const satisfies readonly (keyof StatedChange)[];

type ServiceTier = (typeof serviceTierNames)[number];

/** Factors of the rates for one value of a term, such as the speed "fast". */
export interface DecidedFactors extends Decided<StatedFactors> {
  readonly term: FactorTerm;
  readonly name: string;
}

/** A model's price with the place that decides each figure. */
export interface DecidedPrice extends ShareTerms {
  readonly tiers: readonly DecidedTier[];
  readonly serviceTiers: ReadonlyMap<ServiceTier, readonly DecidedTier[]>;
  /** In the order of `factorNames`. */
  readonly factors: readonly DecidedFactors[];
  /** Null for a price with rates; undefined if a fault removed an amount. */
  readonly perRequest: DecidedAmount | null | undefined;
  readonly fees: ReadonlyMap<string, DecidedFee>;
  readonly minimum: Decided<NonNullable<StatedPrice["minimum"]>> | null;
  readonly tierMode: Decided<NonNullable<StatedPrice["tier_mode"]>> | null;
  /** Sources of the changes, from the highest to the lowest level, then the source of the model's own price. */
  readonly source: string;
}

/** What decides which figures a model can have. */
interface PricedModel {
  readonly id: string;
  /** False for a model by the second or the character. */
  readonly countsTokens: boolean;
}

/**
 * Decides every figure of a price. The levels apply from the lowest to the highest, and each replaces what it states. A
 * fraction also removes the gateway's absolute amounts of lower levels, which belong to another share.
 */
export function decidePrice(
  model: PricedModel,
  price: StatedPrice,
  block: Block,
  { below, above, assigned }: Levels,
): DecidedPrice {
  const draft = new Draft(model, price.per_request !== undefined);
  for (const level of below) draft.applyTerms(level);
  draft.applyPrice(price, block);
  for (const level of above) draft.applyChange(level);
  return { ...draft.decided(), assigned };
}

interface DecidedTask {
  readonly fraction: Fraction | null;
  readonly gateway: Decided<string> | undefined;
  readonly source: string;
}

/**
 * Decides the price of a task, of which levels state only the fraction. The fraction of a level above the model's own
 * price removes the gateway's amount. Other parts of a level do not fit a task.
 */
export function decideTask(
  model: string,
  { gateway, source }: { readonly gateway: Decided<string> | undefined; readonly source: string },
  { below, above }: Levels,
): DecidedTask {
  for (const { stated, block, effect } of [...below, ...above]) {
    if (stated.fraction !== undefined) effect.apply("fraction", model);
    for (const part of priceFields) {
      if (stated[part] === undefined || part === "fraction") continue;
      const message = `"${model}" has prices of tasks, of which only the fraction can change; state them in the model`;
      effect.miss(part, model, { block: block.at(part), message });
    }
  }
  const last = (levels: readonly Level[]) => levels.map(fractionOf).findLast((fraction) => fraction !== null) ?? null;
  const higher = last(above);
  const deciding = above.filter(({ stated }) => stated.fraction !== undefined).toReversed();
  return {
    fraction: higher ?? last(below),
    gateway: higher === null ? gateway : undefined,
    source: joinedSource(deciding, source),
  };
}

/** Returns the sources of changes, from the highest to the lowest level, then the source of the model's own price. */
function joinedSource(changes: readonly Level[], own: string): string {
  const sources = new Set(changes.flatMap(({ stated }) => stated.source ?? []));
  return sources.size === 0 ? own : `${[...sources].join("; ")}; otherwise ${own}`;
}

function fractionOf({ stated, block, by, effect }: Level): Fraction | null {
  const { fraction } = stated;
  if (fraction === undefined) return null;
  return { value: fraction, millionths: rateOf(fraction), block: block.at("fraction"), by, effect };
}

type Rates = Partial<Record<TokenClass, Decided<string>>>;

interface DraftTier extends DecidedTier {
  readonly official: Rates;
  gateway: Rates;
  readonly blocks: [Block, ...Block[]];
}

interface DraftFee {
  official?: Decided<string>;
  gateway?: Decided<string> | undefined;
  inputTokens?: Decided<number>;
  /** Levels that state a part of the fee. */
  readonly levels: Level[];
}

/** Rates as a price states them, or a change. */
interface StatedTiers {
  readonly official?: StatedRates | undefined;
  readonly gateway?: StatedRates | undefined;
  /** A tier is undefined if a fault removed it. */
  readonly tiers?: readonly (StatedTier | undefined)[] | undefined;
}

interface StatedTier {
  /** Missing if a fault removed it. */
  readonly from_prompt_tokens?: number;
  readonly official?: StatedRates | undefined;
  readonly gateway?: StatedRates | undefined;
  readonly remove?: true | undefined;
}

/** A price while the levels apply to it. */
class Draft {
  readonly #model: string;
  readonly #isFlat: boolean;
  readonly #countsTokens: boolean;
  #fraction: Fraction | null = null;
  #cacheTerms: Partial<Record<TokenClass, Decided<string>>> = {};
  #tiers: DraftTier[] = [];
  readonly #serviceTiers = new Map<ServiceTier, DraftTier[]>();
  readonly #factors = new Map<string, Decided<StatedFactors>>();
  readonly #perRequest: { official?: Decided<string>; gateway?: Decided<string> | undefined } = {};
  readonly #fees = new Map<string, DraftFee>();
  #minimum: DecidedPrice["minimum"] = null;
  #tierMode: DecidedPrice["tierMode"] = null;
  #source = "";
  /** Levels above the model's own price, from the highest to the lowest level. */
  readonly #above: Level[] = [];
  /** Levels of which a part applies to this price. */
  readonly #applied = new Set<Level>();

  constructor({ id, countsTokens }: PricedModel, isFlat: boolean) {
    this.#model = id;
    this.#isFlat = isFlat;
    this.#countsTokens = countsTokens && !isFlat;
  }

  /** Applies what a price, a group, a gateway or a change can state. */
  applyTerms(level: Level): void {
    const { stated, block } = level;
    const fraction = fractionOf(level);
    if (fraction !== null) {
      this.#applyFraction(fraction);
      this.#apply(level, "fraction");
    }
    for (const name of cacheClasses) {
      const value = stated[name];
      if (value === undefined || this.#isFlat) continue;
      this.#cacheTerms[name] = { value, block: block.at(name) };
      for (const tier of this.#allTiers()) delete tier.gateway[name];
      this.#apply(level, name);
    }
    if (this.#isFlat)
      this.#miss(
        level,
        cacheClasses,
        `"${this.#model}" has a price per request, without rates of cached tokens; leave it out`,
      );
    if (stated.minimum !== undefined) this.#applyMinimum(stated.minimum, block.at("minimum"), level);
    this.#applyFees(stated.fees, block, level);
  }

  applyPrice(price: StatedPrice, block: Block): void {
    if (price.per_request !== undefined) this.#applyPerRequest(price.per_request, block.at("per_request"));
    this.#tiers = tiersOf(price, block);
    for (const name of serviceTierNames) {
      const stated = price.service_tiers?.[name];
      if (stated !== undefined) this.#serviceTiers.set(name, tiersOf(stated, block.at("service_tiers", name)));
    }
    if (!this.#isFlat) this.#applyFactors(price.factors, block);
    if (price.minimum !== undefined) this.#minimum = { value: price.minimum, block: block.at("minimum") };
    if (price.tier_mode !== undefined) this.#tierMode = { value: price.tier_mode, block: block.at("tier_mode") };
    this.#applyFees(price.fees, block, null);
    this.#source = price.source;
  }

  applyChange(level: Level): void {
    const { stated, block } = level;
    this.applyTerms(level);
    if (this.#isFlat) this.#miss(level, rateFields, `"${this.#model}" has a price per request; write per_request`);
    else {
      this.#changeTiers(this.#tiers, stated, level, block);
      this.#changeServiceTiers(level);
      for (const name of this.#applyFactors(stated.factors, block)) this.#apply(level, `factors.${name}`);
      if (stated.tier_mode !== undefined) {
        this.#tierMode = { value: stated.tier_mode, block: block.at("tier_mode") };
        this.#apply(level, "tier_mode");
      }
    }
    this.#changePerRequest(level);
    this.#above.unshift(level);
  }

  decided(): Omit<DecidedPrice, "assigned"> {
    const { official, gateway } = this.#perRequest;
    const fees = this.#decidedFees();
    return {
      model: this.#model,
      fraction: this.#fraction,
      cacheTerms: this.#cacheTerms,
      tiers: this.#tiers,
      serviceTiers: this.#serviceTiers,
      factors: factorTerms.flatMap((term) =>
        factorNames[term].flatMap((name) => {
          const decided = this.#factors.get(`${term}.${name}`);
          return decided === undefined ? [] : [{ term, name, ...decided }];
        }),
      ),
      perRequest: this.#isFlat ? official && { official, gateway } : null,
      fees,
      minimum: this.#minimum,
      tierMode: this.#tierMode,
      source: joinedSource(
        this.#above.filter((level) => this.#applied.has(level)),
        this.#source,
      ),
    };
  }

  /** Records that a part of a level applies to this price. */
  #apply(level: Level, part: string): void {
    this.#applied.add(level);
    level.effect.apply(part, this.#model);
  }

  /** Records the stated ones of these parts of a level as parts that do not fit this price. */
  #miss({ stated, block, effect }: Level, parts: readonly (keyof StatedChange)[], message: string): void {
    for (const part of parts)
      if (stated[part] !== undefined) effect.miss(part, this.#model, { block: block.at(part), message });
  }

  /** Applies a minimum of a level, except tokens to a price without tokens. */
  #applyMinimum(minimum: NonNullable<StatedChange["minimum"]>, block: Block, level: Level): void {
    const { tokens = 0, usd } = minimum;
    const fits = this.#countsTokens || tokens === 0;
    if (!fits && usd === undefined) {
      const message = `"${this.#model}" has no price of tokens, so that a minimum of tokens does not apply; write usd`;
      level.effect.miss("minimum", this.#model, { block: block.at("tokens"), message });
      return;
    }
    this.#minimum = { value: fits ? minimum : { usd }, block };
    this.#apply(level, "minimum");
  }

  #applyFraction(fraction: Fraction): void {
    this.#fraction = fraction;
    for (const tier of this.#allTiers()) tier.gateway = {};
    delete this.#perRequest.gateway;
    for (const fee of this.#fees.values()) delete fee.gateway;
    for (const name of cacheClasses) if (!cacheWords.has(this.#cacheTerms[name]?.value)) delete this.#cacheTerms[name];
  }

  #allTiers(): DraftTier[] {
    return [...this.#tiers, ...[...this.#serviceTiers.values()].flat()];
  }

  /** `level`: null for the model's own price. */
  #applyFees(fees: StatedChange["fees"], block: Block, level: Level | null): void {
    for (const [name, stated] of Object.entries(fees ?? {})) {
      const here = block.at("fees", name);
      const fee = this.#fees.get(name) ?? { levels: [] };
      if (stated.usd !== undefined) fee.official = { value: stated.usd, block: here.at("usd") };
      if (stated.gateway !== undefined) fee.gateway = { value: stated.gateway, block: here.at("gateway") };
      if (stated.input_tokens !== undefined)
        fee.inputTokens = { value: stated.input_tokens, block: here.at("input_tokens") };
      if (level !== null) fee.levels.push(level);
      this.#fees.set(name, fee);
    }
  }

  /** Returns the fees whose amount and tokens are known. Levels that change parts of other fees have no effect. */
  #decidedFees(): ReadonlyMap<string, DecidedFee> {
    const decided = new Map<string, DecidedFee>();
    for (const [name, { official, gateway, inputTokens, levels }] of this.#fees) {
      const isKnown = official !== undefined && inputTokens !== undefined;
      if (isKnown) decided.set(name, { official, gateway, inputTokens });
      for (const level of levels) {
        const { block, effect } = level;
        const message = `no model here has the fee "${name}"; write usd and input_tokens to add it`;
        if (isKnown) this.#apply(level, `fees.${name}`);
        else effect.miss(`fees.${name}`, this.#model, { block: block.at("fees", name), message });
      }
    }
    return decided;
  }

  /** Returns the names of the stated factors, such as "speed.fast". A factor replaces that of lower levels as a whole. */
  #applyFactors(stated: StatedPrice["factors"], block: Block): string[] {
    return factorTerms.flatMap((term) =>
      Object.entries(stated?.[term] ?? {}).flatMap(([name, value]) => {
        if (value === undefined) return [];
        this.#factors.set(`${term}.${name}`, { value, block: block.at("factors", term, name) });
        return [`${term}.${name}`];
      }),
    );
  }

  #applyPerRequest(stated: NonNullable<StatedChange["per_request"]>, block: Block): void {
    for (const side of ["official", "gateway"] as const) {
      const value = stated[side];
      if (value !== undefined) this.#perRequest[side] = { value, block: block.at(side) };
    }
  }

  #changePerRequest(level: Level): void {
    const { per_request: stated } = level.stated;
    if (!this.#isFlat) {
      const message = `"${this.#model}" has rates, not a price per request; state the model as a whole`;
      this.#miss(level, ["per_request"], message);
    } else if (stated !== undefined) {
      this.#applyPerRequest(stated, level.block.at("per_request"));
      this.#apply(level, "per_request");
    }
  }

  #changeServiceTiers(level: Level): void {
    for (const name of serviceTierNames) {
      const stated = level.stated.service_tiers?.[name];
      if (stated === undefined) continue;
      const block = level.block.at("service_tiers", name);
      const tiers = this.#serviceTiers.get(name);
      if (tiers !== undefined) this.#changeTiers(tiers, stated, level, block, `service_tiers.${name}.`);
      else if (isComplete(stated)) {
        const added = [tierOf(null, stated, block)];
        this.#serviceTiers.set(name, added);
        this.#changeTiers(added, { tiers: stated.tiers }, level, block, `service_tiers.${name}.`);
        this.#apply(level, `service_tiers.${name}`);
      } else {
        const message = `"${this.#model}" has no service tier "${name}"; write its official input and output to add it`;
        level.effect.miss(`service_tiers.${name}`, this.#model, { block, message });
      }
    }
  }

  /** Changes the tiers of one service tier. The parts' names in the effect begin with `within`. */
  #changeTiers(tiers: DraftTier[], stated: StatedTiers, level: Level, block: Block, within = ""): void {
    const [first] = tiers;
    if (first !== undefined) changeTier(first, stated, block);
    for (const side of ["official", "gateway"] as const)
      if (stated[side] !== undefined) this.#apply(level, `${within}${side}`);
    for (const [index, tier] of (stated.tiers ?? []).entries()) {
      const from = tier?.from_prompt_tokens;
      if (tier === undefined || from === undefined) continue;
      const here = block.at("tiers", index);
      const found = tiers.findIndex((other) => other.from?.value === from);
      const known = tiers[found];
      const part = `${within}tiers.${from}`;
      if (known === undefined && !isComplete(tier)) {
        const starts = tiers.flatMap((other) => other.from?.value ?? []).join(", ") || "none";
        const advice = tier.remove
          ? "write that number"
          : "write that number, or official input and output to add a tier";
        const message = `no tier of "${this.#model}" begins at ${from} (tiers: ${starts}); ${advice}`;
        level.effect.miss(part, this.#model, { block: here.at("from_prompt_tokens"), message });
        continue;
      }
      if (known === undefined) {
        const next = tiers.findIndex((other) => (other.from?.value ?? 0) > from);
        const added = tierOf({ value: from, block: here.at("from_prompt_tokens") }, tier, here);
        tiers.splice(next === -1 ? tiers.length : next, 0, added);
      } else if (tier.remove) tiers.splice(found, 1);
      else changeTier(known, tier, here);
      this.#apply(level, part);
    }
  }
}

function isComplete({ official }: StatedTiers): boolean {
  return official?.input !== undefined && official.output !== undefined;
}

function tiersOf(stated: StatedTiers, block: Block): DraftTier[] {
  const higher = (stated.tiers ?? []).flatMap((tier, index) => {
    if (tier === undefined) return [];
    const here = block.at("tiers", index);
    const from = tier.from_prompt_tokens;
    return [tierOf(from === undefined ? undefined : { value: from, block: here.at("from_prompt_tokens") }, tier, here)];
  });
  return [tierOf(null, stated, block), ...higher];
}

function tierOf(from: DraftTier["from"], stated: Omit<StatedTiers, "tiers">, block: Block): DraftTier {
  const tier: DraftTier = { from, official: {}, gateway: {}, blocks: [block] };
  setRates(tier, stated, block);
  return tier;
}

function changeTier(tier: DraftTier, stated: Omit<StatedTiers, "tiers">, block: Block): void {
  tier.blocks.push(block);
  setRates(tier, stated, block);
}

function setRates(tier: DraftTier, stated: Omit<StatedTiers, "tiers">, block: Block): void {
  for (const side of ["official", "gateway"] as const) {
    for (const name of tokenClasses) {
      const value = stated[side]?.[name];
      if (value !== undefined) tier[side][name] = { value, block: block.at(side, name) };
    }
  }
}
