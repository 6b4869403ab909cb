import type { ModelLimits, TextApi } from "../core/bounds.ts";
import type { ImageRule, PromptForm } from "../core/prompt-text.ts";
import type { PinnedPrice } from "../core/price.ts";
import type { StreamKind } from "../core/slices.ts";
import type { RouteMatch } from "../core/task-routes.ts";
import type { TaskTimeLimits } from "../core/tasks.ts";
import type { Permille, TokenClass, Unit } from "../core/usage.ts";

/** The public tokenizers that Farebox can count with. */
export type Encoding = "o200k_base" | "cl100k_base";

/** One model at one instant, as the request path needs it. */
export interface CatalogueModel extends ModelLimits {
  /** Id in the catalogue. The request may name an alias instead. */
  readonly id: string;
  readonly provider: string;
  readonly group: string | null;
  /** Names of other models whose answers the gateway bills as this model. */
  readonly servedAs: readonly string[];
  /** Null for a known model without a price in force. */
  readonly price: PinnedPrice | null;
  /** Unit of the model's sizes and rates. The rates are for one million units. */
  readonly unit: Unit;
  /** True if the model's rates apply to the image endpoints only. */
  readonly imagesOnly: boolean;
  /** Encoding with which Farebox counts this model's tokens. */
  readonly encoding: Encoding;
  /** True if the model itself uses `encoding`, so that counts are exact. */
  readonly tokenizerIsPublic: boolean;
  /** Largest factor by which `encoding` may undercount this model, in permille; 1000 if the tokenizer is public. */
  readonly errorFactor: Permille;
  /** Format in which the model's prompt contains tools and their calls. */
  readonly promptForm: PromptForm;
  /** Rule for the tokens of an image of known size; null if it is not published. */
  readonly imageRule: ImageRule | null;
  /** True if the gateway may bill output tokens of the model that the client never receives. */
  readonly reasons: boolean;
  /** Output speed as the price file states it, for estimates of output that was produced but not received. */
  readonly tokensPerSecond: number;
  /** True if the gateway bills answers of 5xx (except 504, 520 and 524). */
  readonly billsServerErrors: boolean;
  /** True if `max_tool_calls` limits the calls of hosted tools in one request. */
  readonly obeysMaxToolCalls: boolean;
  /** `live`: an answer arrives while it is generated. `burst`: it may arrive all at once. */
  readonly streams: StreamKind;
  /** Request field that limits the model's output, by API; absent if unknown. */
  readonly maxOutputField: Readonly<Partial<Record<TextApi, string | undefined>>>;
}

/** One type of a model's tasks at one instant, as the request path needs it. */
export interface CatalogueTask extends Pick<CatalogueModel, "id" | "group" | "billsServerErrors"> {
  /** Price with a `task` part; null if no price is in force. */
  readonly price: PinnedPrice | null;
  readonly quantity: TaskQuantity;
}

/** Number of priced units in a task. Decimals are plain text. */
export interface TaskQuantity {
  /** Field of `input` that states the number; null if the number is always 1. */
  readonly field: string | null;
  /** Number that applies if the request does not state the field; null if unknown. */
  readonly otherwise: string | null;
  /** Largest number of units that the gateway produces; null if unknown. */
  readonly most: string | null;
}

/** A model's state from `start` until the start of the next span. The first span starts at -Infinity. */
export interface ModelSpan {
  readonly start: number;
  readonly model: CatalogueModel;
}

/** History of one model with all its names. Spans are in ascending order and cover all time. */
export interface ModelHistory {
  readonly id: string;
  readonly aliases: readonly string[];
  readonly spans: readonly ModelSpan[];
  /** Task types with a price, in the order of the file; absent if there are none. */
  readonly tasks?: readonly TaskHistory[];
}

/** Price history of one type of a model's tasks. Spans are in ascending order; no price applies before the first. */
export interface TaskHistory {
  readonly taskType: string;
  readonly spans: readonly TaskSpan[];
}

export interface TaskSpan {
  readonly start: number;
  /** Null if no price is in force during the span. */
  readonly price: PinnedPrice | null;
  readonly quantity: TaskQuantity;
}

/** Reviewed prices. Lookups are synchronous and fast because every request needs them. */
export interface Catalogue {
  /**
   * Finds a model as `named` does, with its price in force at the instant. Returns the model `default` for an unknown
   * name; undefined if the files state no price for unknown models.
   */
  find(model: string, at: number): CatalogueModel | undefined;
  /**
   * Finds a model by id or alias. If there is no such name, ignores letter case, a provider before the name, and a dated
   * or numbered suffix, if exactly one model then fits. Returns undefined for an unknown name. Never returns the model
   * `default`, because the text may not be the name of a model.
   */
  named(text: string, at: number): CatalogueModel | undefined;
  /** Returns the id or alias by which `named` finds a text, as the price files write it; undefined if unknown. */
  statedName(text: string): string | undefined;
  /**
   * Returns the model's tasks of a type with their price in force at the instant; undefined if the model is unknown.
   */
  findTask(model: string, taskType: string | null, at: number): CatalogueTask | undefined;
  /**
   * Returns the route of the price files that a request matches, or misspells in a way that a gateway might accept.
   * Returns undefined if there is no such route.
   */
  route(method: string, path: string): RouteMatch | undefined;
  /** Units of task consumption per USD, by type of usage. Consumption of types not listed here has no USD value. */
  readonly taskUnits: ReadonlyMap<string, bigint>;
  readonly taskTimeLimits: TaskTimeLimits;
  /** Returns all models in catalogue order, with their prices in force at the instant. */
  list(at: number): readonly CatalogueModel[];
  /**
   * Returns the histories of all models in catalogue order. If the files state a price for unknown models, its history
   * is the last one, with the id `default`.
   */
  histories(): readonly ModelHistory[];
  /** Digest of all loaded data. Proxies with the same prices have the same digest. */
  readonly digest: string;
}

/**
 * Rule for the charged rate of a class: a rate that the gateway states, a fraction of the official rate, or the rate of
 * another class.
 */
export type RateRule =
  | { readonly kind: "stated" }
  | { readonly kind: "share"; readonly fraction: string }
  | { readonly kind: "parent"; readonly of: TokenClass };

/** A line of a price file; lines count from 1. */
export interface FileLocation {
  readonly file: string;
  readonly line: number;
}

/** Origin of a model's price, for display. Requests do not use it. */
export interface PriceExplanation {
  /**
   * `revision`: the name without its date or number is an id or alias. `spelling`: the name has another case or a
   * provider. `default`: no file contains the name.
   */
  readonly foundBy: "id" | "alias" | "revision" | "spelling" | "default";
  /** The model, with its price in force at the instant. */
  readonly model: CatalogueModel;
  readonly aliases: readonly string[];
  readonly place: FileLocation;
  /** The group, the fraction in force, and the file location that states the fraction. */
  readonly group: { readonly name: string; readonly fraction: string; readonly place: FileLocation } | null;
  /** Prices of the model's tasks at all times. */
  readonly tasks: readonly TaskHistory[];
  /** All price entries of the model, in ascending order. */
  readonly entries: readonly PriceEntry[];
  /** Places that decide the model's other properties, by their names in price files. */
  readonly traits: Readonly<Record<string, FileLocation>>;
  /** Null if no price is in force. */
  readonly inForce: {
    readonly entry: PriceEntry;
    /** Rules of each tier, in ascending order; empty for a price per request. */
    readonly tiers: readonly TierRules[];
    /** Rule of a price per request; null for other prices. */
    readonly perRequest: PlacedRule | null;
    /** Rules by service tier, each in the form of `tiers`. */
    readonly serviceTiers: Readonly<Record<string, readonly TierRules[]>>;
    /** Factors of the rates, by the field of a request and its value. */
    readonly factors: readonly PlacedFactor[];
    /** Rules of fees, by type of the item in an answer. */
    readonly fees: Readonly<Record<string, PlacedRule>>;
    /** Place of the minimum charge; null if none is stated. */
    readonly minimum: FileLocation | null;
  } | null;
}

/** Factors of the rates for one value of a field, such as `speed: "fast"`. */
interface PlacedFactor {
  readonly field: string;
  readonly value: string;
  /** One factor, or factors by class: "input 2, cached_input 1, output 2". */
  readonly factors: string;
  readonly place: FileLocation;
}

/** What a change of a price file changes, for display. */
export interface ChangeExplanation {
  /** Id of a model, or a pattern. */
  readonly of: string;
  readonly place: FileLocation;
  /** ISO day, inclusive; null for a change without a beginning. */
  readonly from: string | null;
  /** ISO day, exclusive; null for a change without an end. */
  readonly until: string | null;
  /** Ids of the models whose price or sizes the change changes. */
  readonly models: readonly string[];
  /** Names that the change adds to its model. */
  readonly aliases: readonly string[];
  /** Parts of the change that do not fit some of its models, such as rates for a model with a price per request. */
  readonly misfits: readonly { readonly part: string; readonly models: readonly string[] }[];
  /** For a change of rates: models with rates of long prompts or of other service tiers that the change does not state. */
  readonly standardOnly: readonly string[];
}

/** Group of the user's files without a model, so that what it states has no effect. */
export interface EmptyGroup {
  readonly group: string;
  readonly place: FileLocation;
}

/** Models whose gateway rates are far from the official ones, so that a unit may be wrong. */
export interface UnlikelyRates {
  readonly are: "low" | "high";
  readonly models: readonly string[];
}

export interface PriceEntry {
  /** ISO day, inclusive. */
  readonly from: string;
  /** ISO day, exclusive; null for the last entry. */
  readonly until: string | null;
  readonly place: FileLocation;
}

/** Rule for a charged amount, with the places that decide it. */
export interface PlacedRule {
  readonly rule: RateRule;
  /** Place of the amount, of the fraction, or of the choice of another class; null for a default. */
  readonly place: FileLocation | null;
  /** Place of the official amount. */
  readonly listedAt: FileLocation | null;
}

/** Rules by token class. `listed`: class whose official rate is the list rate. */
export type TierRules = Readonly<Record<TokenClass, PlacedRule & { readonly listed: TokenClass }>>;
