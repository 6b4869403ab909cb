/** Other projects' tables of prices that can be read. */
export const priceTables = ["genai-prices", "litellm"] as const;
export type PriceTableName = (typeof priceTables)[number];

export interface PriceImportOrder {
  readonly from: PriceTableName;
  /** The table's name for messages, and its text. */
  readonly file: string;
  readonly text: string;
  /** ISO days. */
  readonly fromDate: string;
  readonly today: string;
  /** As the table names them; null for the families that price files name. */
  readonly providers: readonly string[] | null;
  /** Patterns; null for all. */
  readonly models: readonly string[] | null;
  /** Of models that are new. */
  readonly group: string;
  /** Whether to propose models that no price file names. */
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
    /** Where the user's folder states the model itself, so that its entries are to be added there by hand. */
    readonly by_hand: { readonly file: string; readonly line: number } | null;
    readonly entries: readonly {
      readonly from: string;
      /** USD per 1M tokens, or for one request; null where there is none. */
      readonly changes: readonly { readonly class: string; readonly before: string | null; readonly after: string | null }[];
    }[];
  }[];
  readonly unchanged: number;
  readonly left_out: readonly { readonly model: string; readonly why: string }[];
  /** A name for the file. */
  readonly name: string;
  /** The price file; empty where nothing is proposed. */
  readonly yaml: string;
}
