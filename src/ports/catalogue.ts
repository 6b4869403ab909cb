import type { ModelLimits } from "../core/bounds.ts";
import type { PriceVersion } from "../core/price.ts";
import type { Permille } from "../core/tokens.ts";

/** The public tokenizers that Farebox can count with. */
export type Encoding = "o200k_base" | "cl100k_base";

/** A price with its content address, ready to be written beside a hold. */
export interface PinnedPrice {
  /** Digest of the canonical text. */
  readonly id: string;
  readonly canonical: string;
  readonly version: PriceVersion;
}

/** All that the request path needs to know of one model, at one instant. */
export interface CatalogueModel extends ModelLimits {
  /** The catalogue's id; a request may have named an alias of it. */
  readonly id: string;
  readonly provider: string;
  readonly group: string | null;
  /** Null for a model that is known and has no price in force. */
  readonly price: PinnedPrice | null;
  /** The encoding to count with. */
  readonly encoding: Encoding;
  /** Whether `encoding` is this model's own, so that a count of it is not an estimate. */
  readonly tokenizerIsPublic: boolean;
  /** By how much `encoding` may undercount this model; 1000 where the tokenizer is public. */
  readonly errorFactor: Permille;
  /** Whether it may bill output tokens that the client never sees. */
  readonly reasons: boolean;
  /** Stated output speed, for output that was produced unseen before a cut. */
  readonly tokensPerSecond: number;
  /** Whether the gateway bills an answer of 500, 502 or 503. */
  readonly billsServerErrors: boolean;
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
}

/** Reviewed prices. Lookups are synchronous and cheap: they are on the path of every request. */
export interface Catalogue {
  /** The model by id or alias with its price in force at the instant; undefined when unknown. */
  find(model: string, at: number): CatalogueModel | undefined;
  /** All models in catalogue order, with their prices in force at the instant. */
  list(at: number): readonly CatalogueModel[];
  /** All models at all times, in catalogue order; the price of unknown models, where one is stated, comes last as `default`. */
  histories(): readonly ModelHistory[];
  /** Digest over everything loaded: equal on two proxies with the same prices. */
  readonly digest: string;
}
