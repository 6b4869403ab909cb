/** Other projects' tables of prices that can be read. */
export const priceTables = ["genai-prices", "litellm"] as const;
export type PriceTableName = (typeof priceTables)[number];

/** One table as it was read from a file or an address. */
export interface PriceTableText {
  /** Its name for messages: a path, or an address. */
  readonly file: string;
  readonly text: string;
}

export interface PriceImportParams {
  /** At least one. Where several state a price, those of its classes on which they differ are not taken. */
  readonly tables: readonly PriceTableText[];
  /** The format of all of them; null to tell it from each table. */
  readonly from: PriceTableName | null;
  /** ISO days. */
  readonly fromDate: string;
  readonly today: string;
  /** As the tables name them; null for the families that price files name. */
  readonly providers: readonly string[] | null;
  /** Patterns; null for all. */
  readonly models: readonly string[] | null;
  /** Applies to new models only. */
  readonly group: string;
  /** True to propose models that no price file names. */
  readonly withNew: boolean;
}

export type PriceImportResult =
  | { readonly ok: true; readonly imported: PriceImport }
  /** One line each; `usage` where a flag is at fault. */
  | { readonly ok: false; readonly problems: readonly string[]; readonly usage: boolean };

export interface PriceImport {
  readonly proposed: readonly {
    readonly model: string;
    readonly kind: "new" | "changed";
    readonly provider: string;
    /** The user's own file that states the model, to which its entries are added. */
    readonly added_to: string | null;
    /** The user's folder states the model in a form that only a person can add entries to. */
    readonly by_hand: { readonly file: string; readonly line: number } | null;
    readonly entries: readonly {
      readonly from: string;
      /** USD per 1M tokens, or for one request; null where there is none. */
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
  /** A name for the new file. */
  readonly name: string;
  /** The new price file; empty where it would hold nothing. */
  readonly yaml: string;
  /** Own files with their new text. */
  readonly edited: readonly EditedFile[];
}

export interface PriceDifference {
  readonly model: string;
  readonly class: string;
  readonly stated: readonly { readonly table: string; readonly value: string }[];
}

export interface EditedFile {
  readonly path: string;
  readonly before: string;
  readonly after: string;
}

/** Both tables agree, and the price files do not: `ours` is null where they state nothing. */
export interface PriceCheckFault {
  readonly model: string;
  readonly class: string;
  readonly ours: string | null;
  readonly theirs: string;
}
