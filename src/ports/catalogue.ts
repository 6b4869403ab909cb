import type { ModelLimits, TextApi } from "../core/bounds.ts";
import type { ImageRule, PromptForm } from "../core/prompt-text.ts";
import type { PinnedPrice } from "../core/price.ts";
import type { StreamKind } from "../core/slices.ts";
import type { RouteMatch } from "../core/task-routes.ts";
import type { Permille, TokenClass, Unit } from "../core/usage.ts";

/** The public tokenizers that Farebox can count with. */
export type Encoding = "o200k_base" | "cl100k_base";

/** One model at one instant, as the request path needs it. */
export interface CatalogueModel extends ModelLimits {
  /** Id in the catalogue. A request may have named an alias. */
  readonly id: string;
  readonly provider: string;
  readonly group: string | null;
  /** Names of other models whose answers the gateway bills as this one. */
  readonly servedAs: readonly string[];
  /** Null for a known model without a price in force. */
  readonly price: PinnedPrice | null;
  /** Unit of its rates, per million, and of its sizes. */
  readonly unit: Unit;
  /** True if its rates apply to the image endpoints only. */
  readonly imagesOnly: boolean;
  /** The encoding to count with. */
  readonly encoding: Encoding;
  /** True if `encoding` is this model's own, so that its counts are exact. */
  readonly tokenizerIsPublic: boolean;
  /** Factor by which `encoding` may undercount this model; 1000 if the tokenizer is public. */
  readonly errorFactor: Permille;
  /** Form in which tools and their calls are written into its prompt. */
  readonly promptForm: PromptForm;
  /** Rule for the tokens of an image of known size; null if it is not published. */
  readonly imageRule: ImageRule | null;
  /** True if it may bill output tokens that the client never sees. */
  readonly reasons: boolean;
  /** Stated output speed, for output produced but not seen before a cut. */
  readonly tokensPerSecond: number;
  /** True if the gateway bills answers of 500, 502 or 503. */
  readonly billsServerErrors: boolean;
  /** True if `max_tool_calls` limits the calls of hosted tools in one request. */
  readonly obeysMaxToolCalls: boolean;
  /** States if its answer comes as it is generated or may come at once. */
  readonly streams: StreamKind;
  /** The field of a request that limits the model's output, by API; absent where it is not known. */
  readonly maxOutputField: Readonly<Partial<Record<TextApi, string | undefined>>>;
}

/** One type of a model's tasks at one instant, as the request path needs it. */
export interface CatalogueTask extends Pick<CatalogueModel, "id" | "group" | "billsServerErrors"> {
  /** Its `task` states the priced unit. Null if no price is in force. */
  readonly price: PinnedPrice | null;
  readonly quantity: TaskQuantity;
}

/** Number of priced units in a task; decimals as plain text. */
export interface TaskQuantity {
  /** The field of `input` that states it; null where it is always one. */
  readonly field: string | null;
  /** Value if the request does not state the field; null if unknown. */
  readonly otherwise: string | null;
  /** Most units that the gateway makes; null if unknown. */
  readonly most: string | null;
}

/** A model's state from an instant on, until the next one's. The first begins before all time. */
export interface ModelSpan {
  readonly start: number;
  readonly model: CatalogueModel;
}

/** One model under all its names, at all times; spans ascend and cover all time. */
export interface ModelHistory {
  readonly id: string;
  readonly aliases: readonly string[];
  readonly spans: readonly ModelSpan[];
  /** Task types with a price, in the order of the file; absent for none. */
  readonly tasks?: readonly TaskHistory[];
}

/** The prices of one type of a model's tasks at all times; spans ascend, and before the first there is none. */
export interface TaskHistory {
  readonly taskType: string;
  readonly spans: readonly TaskSpan[];
}

export interface TaskSpan {
  readonly start: number;
  /** Null for a time without a price in force. */
  readonly price: PinnedPrice | null;
  readonly quantity: TaskQuantity;
}

/** Reviewed prices. Lookups are synchronous and cheap: they are on the path of every request. */
export interface Catalogue {
  /** The model by id or alias with its price in force at the instant; undefined when unknown. */
  find(model: string, at: number): CatalogueModel | undefined;
  /** As `find`, for a text that need not be a model: never by the price of unknown models. */
  named(text: string, at: number): CatalogueModel | undefined;
  /** The model's tasks of a type with their price in force at the instant; undefined when the model is unknown. */
  findTask(model: string, taskType: string | null, at: number): CatalogueTask | undefined;
  /** Returns the price files' route for a request, or for what a gateway might read it as; undefined for none. */
  route(method: string, path: string): RouteMatch | undefined;
  /** Units of a task's consumption for one USD, by the usage's type; types that are not here stay raw. */
  readonly taskUnits: ReadonlyMap<string, bigint>;
  /** All models in catalogue order, with their prices in force at the instant. */
  list(at: number): readonly CatalogueModel[];
  /** All models at all times, in catalogue order; the price of unknown models, where one is stated, comes last as `default`. */
  histories(): readonly ModelHistory[];
  /** Digest over everything loaded: equal on two proxies with the same prices. */
  readonly digest: string;
}

/**
 * Rule of a class's charged rate: stated by the gateway, this fraction of its own official rate, or the rate of another
 * class.
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

/** Origin of a model's price, for people. Not used for requests. */
export interface PriceExplanation {
  /** `revision`: the name without its date or number is an id or an alias. `default`: no file names it. */
  readonly foundBy: "id" | "alias" | "revision" | "default";
  /** With the price in force at the instant. */
  readonly model: CatalogueModel;
  readonly aliases: readonly string[];
  readonly place: FileLocation;
  /** The group's fraction and where it is stated. */
  readonly group: { readonly name: string; readonly fraction: string; readonly place: FileLocation } | null;
  /** The prices of its tasks at all times. */
  readonly tasks: readonly TaskHistory[];
  /** Every entry of the file, ascending. */
  readonly entries: readonly PriceEntry[];
  /** Null where no price is in force. */
  readonly inForce: {
    readonly entry: PriceEntry;
    /** One a tier, ascending; empty for a price of requests. */
    readonly tiers: readonly TierRules[];
    /** For a price of requests. */
    readonly perRequest: RateRule | null;
    /** By service tier, as `tiers`. */
    readonly serviceTiers: Readonly<Record<string, readonly TierRules[]>>;
    /** By the type of the item in an answer. */
    readonly fees: Readonly<Record<string, RateRule>>;
  } | null;
}

export interface PriceEntry {
  /** ISO day, inclusive. */
  readonly from: string;
  /** ISO day, exclusive; null while it has no successor. */
  readonly until: string | null;
  readonly place: FileLocation;
}

/** For each class: the class whose official rate is its list rate, and why it is charged as it is. */
export type TierRules = Readonly<Record<TokenClass, { readonly listed: TokenClass; readonly rule: RateRule }>>;
