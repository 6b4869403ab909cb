import type { Fraction } from "./rates.ts";
import type { StatedModel, StatedTraits } from "./schema.ts";
import type { FileLocation } from "../ports/catalogue.ts";

/** A model in force as its file states it: for people who ask where a price comes from, never on the path of a request. */
export interface ModelOrigin {
  readonly provider: string;
  readonly model: StatedModel;
  /** Values that its file states for all of its models. */
  readonly defaults: StatedTraits;
  /** Its group's share of the official price; null for a model without a group. */
  readonly fraction: Fraction | null;
  readonly file: string;
  /** Counts from 0, the shipped files. */
  readonly layer: number;
  readonly line: number;
  /** Of each of its prices. */
  readonly lines: readonly number[];
}

export interface Origins {
  /** By id; the ceiling price of unknown models among them, where one is stated. */
  readonly models: ReadonlyMap<string, ModelOrigin>;
  readonly groups: ReadonlyMap<string, FileLocation>;
}
