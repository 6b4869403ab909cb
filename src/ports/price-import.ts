/** Price tables of other projects that can be imported. */
export const priceTables = ["genai-prices", "litellm"] as const;
export type PriceTableName = (typeof priceTables)[number];

/** Text of a table from a file or an address. */
export interface PriceTableText {
  /** Name for messages: a path or an address. */
  readonly file: string;
  readonly text: string;
}

export interface PriceImportParams {
  /** At least one table. If several tables state a price, classes on which they differ are skipped. */
  readonly tables: readonly PriceTableText[];
  /** Format of all tables; null to detect the format of each table. */
  readonly from: PriceTableName | null;
  /** First day of the proposed prices, as an ISO day. */
  readonly fromDate: string;
  /** Current ISO day. */
  readonly today: string;
  /** Providers by their names in the tables; null for the families that the price files name. */
  readonly providers: readonly string[] | null;
  /** Patterns of model ids; null for all models. */
  readonly models: readonly string[] | null;
  /** Group of new models. */
  readonly group: string;
  /** True to propose models that are in no price file. */
  readonly withNew: boolean;
}

export type PriceImportResult =
  | { readonly ok: true; readonly imported: PriceImport }
  /** Each problem is one line. `usage`: true if a flag is wrong. */
  | { readonly ok: false; readonly problems: readonly string[]; readonly usage: boolean };

export interface PriceImport {
  readonly proposed: readonly {
    readonly model: string;
    readonly kind: "new" | "changed";
    readonly provider: string;
    readonly entries: readonly {
      readonly from: string;
      /** USD per 1M tokens, or per request; null for no rate. */
      readonly changes: readonly {
        readonly class: string;
        readonly before: string | null;
        readonly after: string | null;
      }[];
    }[];
  }[];
  readonly unchanged: number;
  /** Rates and fees on which the tables differ, by the table's name. */
  readonly differing: readonly PriceDifference[];
  readonly left_out: readonly { readonly model: string; readonly why: string }[];
  /** Suggested name of the new file. */
  readonly name: string;
  /** Text of the new price file; empty if it would contain nothing. */
  readonly yaml: string;
}

export interface PriceDifference {
  readonly model: string;
  readonly class: string;
  readonly stated: readonly { readonly table: string; readonly value: string }[];
}

/** Price on which both tables agree, but which the price files state differently or, if `ours` is null, not at all. */
export interface PriceCheckFault {
  readonly model: string;
  readonly class: string;
  readonly ours: string | null;
  readonly theirs: string;
}
