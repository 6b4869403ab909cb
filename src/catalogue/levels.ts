import { serviceTierNames } from "../core/price.ts";
import { tokenClasses, type TokenClass } from "../core/usage.ts";
import type { Effect } from "./effects.ts";
import {
  cacheClasses,
  rateOf,
  type DecidedAmount,
  type DecidedSides,
  type Fraction,
  type ShareTerms,
} from "./rates.ts";
import type { Block, Decided } from "./read.ts";
import type { StatedChange, StatedPrice, StatedRates } from "./schema.ts";

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

type ServiceTier = (typeof serviceTierNames)[number];

/** A model's price with the place that decides each figure. */
export interface DecidedPrice extends ShareTerms {
  readonly tiers: readonly DecidedTier[];
  readonly serviceTiers: ReadonlyMap<ServiceTier, readonly DecidedTier[]>;
  /** Null for a price with rates; undefined if a fault removed an amount. */
  readonly perRequest: DecidedAmount | null | undefined;
  readonly fees: ReadonlyMap<string, DecidedFee>;
  readonly minimum: Decided<NonNullable<StatedPrice["minimum"]>> | null;
  readonly tierMode: Decided<NonNullable<StatedPrice["tier_mode"]>> | null;
  /** Sources of the changes, from the highest to the lowest level, then the source of the model's own price. */
  readonly source: string;
}

/**
 * Decides every figure of a price. The levels apply from the lowest to the highest, and each replaces what it states. A
 * fraction also removes the gateway's absolute amounts of lower levels, which belong to another share.
 */
export function decidePrice(model: string, price: StatedPrice, block: Block, { below, above }: Levels): DecidedPrice {
  const draft = new Draft(model, price.per_request !== undefined);
  for (const level of below) draft.applyTerms(level);
  draft.applyPrice(price, block);
  for (const level of above) draft.applyChange(level);
  return draft.decided();
}

/**
 * Returns the fraction that applies to a task's price, and the gateway's price unless the fraction of a higher level
 * removes it.
 */
export function decideShare<Gateway>(
  model: string,
  gateway: Gateway,
  { below, above }: Levels,
): { readonly fraction: Fraction | null; readonly gateway: Gateway | undefined } {
  for (const { stated, effect } of above) if (stated.fraction !== undefined) effect.apply("fraction", model);
  const last = (levels: readonly Level[]) => levels.map(fractionOf).findLast((fraction) => fraction !== null) ?? null;
  const higher = last(above);
  return { fraction: higher ?? last(below), gateway: higher === null ? gateway : undefined };
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
  #fraction: Fraction | null = null;
  #cacheTerms: Partial<Record<TokenClass, Decided<string>>> = {};
  #tiers: DraftTier[] = [];
  readonly #serviceTiers = new Map<ServiceTier, DraftTier[]>();
  readonly #perRequest: { official?: Decided<string>; gateway?: Decided<string> | undefined } = {};
  readonly #fees = new Map<string, DraftFee>();
  #minimum: DecidedPrice["minimum"] = null;
  #tierMode: DecidedPrice["tierMode"] = null;
  #source = "";
  /** Changes, from the highest to the lowest level. */
  readonly #changes: Level[] = [];

  constructor(model: string, isFlat: boolean) {
    this.#model = model;
    this.#isFlat = isFlat;
  }

  /** Applies what a price, a group, a gateway or a change can state. */
  applyTerms(level: Level): void {
    const { stated, block, effect } = level;
    const fraction = fractionOf(level);
    if (fraction !== null) this.#applyFraction(fraction);
    for (const name of cacheClasses) {
      const value = stated[name];
      if (value === undefined) continue;
      this.#cacheTerms[name] = { value, block: block.at(name) };
      for (const tier of this.#allTiers()) delete tier.gateway[name];
    }
    if (stated.minimum !== undefined) this.#minimum = { value: stated.minimum, block: block.at("minimum") };
    this.#applyFees(stated.fees, block, level);
    for (const part of ["fraction", "minimum", ...cacheClasses] as const)
      if (stated[part] !== undefined) effect.apply(part, this.#model);
  }

  applyPrice(price: StatedPrice, block: Block): void {
    if (price.per_request !== undefined) this.#applyPerRequest(price.per_request, block.at("per_request"));
    this.#tiers = tiersOf(price, block);
    for (const name of serviceTierNames) {
      const stated = price.service_tiers?.[name];
      if (stated !== undefined) this.#serviceTiers.set(name, tiersOf(stated, block.at("service_tiers", name)));
    }
    if (price.minimum !== undefined) this.#minimum = { value: price.minimum, block: block.at("minimum") };
    if (price.tier_mode !== undefined) this.#tierMode = { value: price.tier_mode, block: block.at("tier_mode") };
    this.#applyFees(price.fees, block, null);
    this.#source = price.source;
  }

  applyChange(level: Level): void {
    const { stated, block, effect } = level;
    this.applyTerms(level);
    if (this.#isFlat) this.#missRates(level);
    else {
      this.#changeTiers(this.#tiers, stated, level, block);
      this.#changeServiceTiers(level);
      if (stated.tier_mode !== undefined) {
        this.#tierMode = { value: stated.tier_mode, block: block.at("tier_mode") };
        effect.apply("tier_mode", this.#model);
      }
    }
    if (stated.per_request !== undefined) this.#changePerRequest(stated.per_request, level);
    this.#changes.unshift(level);
  }

  decided(): DecidedPrice {
    const { official, gateway } = this.#perRequest;
    const fees = this.#decidedFees();
    const changed = this.#changes.filter(({ effect }) => effect.models.has(this.#model));
    const sources = changed.flatMap(({ stated }) => stated.source ?? []);
    return {
      model: this.#model,
      fraction: this.#fraction,
      cacheTerms: this.#cacheTerms,
      tiers: this.#tiers,
      serviceTiers: this.#serviceTiers,
      perRequest: this.#isFlat ? official && { official, gateway } : null,
      fees,
      minimum: this.#minimum,
      tierMode: this.#tierMode,
      source: sources.length === 0 ? this.#source : `${[...new Set(sources)].join("; ")}; otherwise ${this.#source}`,
    };
  }

  #applyFraction(fraction: Fraction): void {
    this.#fraction = fraction;
    for (const tier of this.#allTiers()) tier.gateway = {};
    delete this.#perRequest.gateway;
    for (const fee of this.#fees.values()) delete fee.gateway;
    for (const name of cacheClasses) {
      const term = this.#cacheTerms[name]?.value;
      if (term !== "official" && term !== "input") delete this.#cacheTerms[name];
    }
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
      for (const { block, effect } of levels) {
        const message = `no model here has the fee "${name}"; write usd and input_tokens to add it`;
        if (isKnown) effect.apply(`fees.${name}`, this.#model);
        else effect.miss(`fees.${name}`, this.#model, { block: block.at("fees", name), message });
      }
    }
    return decided;
  }

  #applyPerRequest(stated: NonNullable<StatedChange["per_request"]>, block: Block): void {
    for (const side of ["official", "gateway"] as const) {
      const value = stated[side];
      if (value !== undefined) this.#perRequest[side] = { value, block: block.at(side) };
    }
  }

  #changePerRequest(stated: NonNullable<StatedChange["per_request"]>, { block, effect }: Level): void {
    const here = block.at("per_request");
    if (this.#isFlat) {
      this.#applyPerRequest(stated, here);
      effect.apply("per_request", this.#model);
      return;
    }
    const message = `"${this.#model}" has rates, not a price per request; state the model as a whole`;
    effect.miss("per_request", this.#model, { block: here, message });
  }

  /** Records the rates of a change as parts that do not fit a price per request. */
  #missRates({ stated, block, effect }: Level): void {
    for (const part of ["official", "gateway", "tiers", "service_tiers", "tier_mode"] as const) {
      if (stated[part] === undefined) continue;
      const message = `"${this.#model}" has a price per request; write per_request`;
      effect.miss(part, this.#model, { block: block.at(part), message });
    }
  }

  #changeServiceTiers(level: Level): void {
    for (const name of serviceTierNames) {
      const stated = level.stated.service_tiers?.[name];
      if (stated === undefined) continue;
      const block = level.block.at("service_tiers", name);
      const tiers = this.#serviceTiers.get(name);
      const part = `service_tiers.${name}`;
      if (tiers === undefined && !isComplete(stated)) {
        const message = `"${this.#model}" has no service tier "${name}"; write its official input and output to add it`;
        level.effect.miss(part, this.#model, { block, message });
        continue;
      }
      level.effect.apply(part, this.#model);
      if (tiers !== undefined) this.#changeTiers(tiers, stated, level, block, `${part}.`);
      else {
        const added = [tierOf(null, stated, block)];
        this.#serviceTiers.set(name, added);
        this.#changeTiers(added, { tiers: stated.tiers }, level, block, `${part}.`);
      }
    }
  }

  /** Changes the tiers of one service tier. The parts' names in the effect begin with `within`. */
  #changeTiers(tiers: DraftTier[], stated: StatedTiers, { effect }: Level, block: Block, within = ""): void {
    const [first] = tiers;
    for (const side of ["official", "gateway"] as const) {
      if (stated[side] === undefined || first === undefined) continue;
      changeTier(first, { [side]: stated[side] }, block);
      effect.apply(`${within}${side}`, this.#model);
    }
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
        effect.miss(part, this.#model, { block: here.at("from_prompt_tokens"), message });
        continue;
      }
      if (known === undefined) tiers.push(tierOf({ value: from, block: here.at("from_prompt_tokens") }, tier, here));
      else if (tier.remove) tiers.splice(found, 1);
      else changeTier(known, tier, here);
      effect.apply(part, this.#model);
    }
    tiers.sort((a, b) => (a.from?.value ?? 0) - (b.from?.value ?? 0));
  }
}

function isComplete({ official, remove }: Omit<StatedTier, "from_prompt_tokens">): boolean {
  return official?.input !== undefined && official.output !== undefined && !remove;
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
  for (const side of ["official", "gateway"] as const) setRates(tier, side, stated[side], block);
  return tier;
}

function changeTier(tier: DraftTier, stated: Omit<StatedTiers, "tiers">, block: Block): void {
  tier.blocks.push(block);
  for (const side of ["official", "gateway"] as const) setRates(tier, side, stated[side], block);
}

function setRates(tier: DraftTier, side: "official" | "gateway", rates: StatedRates | undefined, block: Block): void {
  if (rates === undefined) return;
  for (const name of tokenClasses) {
    const value = rates[name];
    if (value !== undefined) tier[side][name] = { value, block: block.at(side, name) };
  }
}
