import type { ChargeState, HoldKind, Source } from "../core/charge.ts";
import type { Formula } from "../core/cost.ts";
import type { PicoUsd } from "../core/money.ts";
import { tokenClasses, type TokenClass } from "../core/usage.ts";

/*
 * The only list of the columns of `charges`. Commands, batches, statements, row types and PostgreSQL functions are
 * generated from it.
 */

/** Column of `charges`. `Given`: its type in a command. `Stored`: its type in a row whose integers are bigints. */
interface Column<Given, Stored = Given> {
  /** Type in PostgreSQL. */
  readonly type: "text" | "bigint" | "double precision";
  /** Value until a command sets the column. */
  readonly unset: null | 0;
  /** Never set. Only the compiler uses it. */
  readonly types?: { readonly given: Given; readonly stored: Stored };
}

type Columns = Readonly<Record<string, Column<unknown>>>;
type GivenOf<C extends Columns> = { readonly [Name in keyof C]: NonNullable<C[Name]["types"]>["given"] };
type StoredOf<C extends Columns> = { readonly [Name in keyof C]: NonNullable<C[Name]["types"]>["stored"] };
type NamesOf<C extends Columns> = readonly (keyof C & string)[];

const text = <Text extends string>(): Column<Text> => ({ type: "text", unset: null });
const whole = (): Column<number, bigint> => ({ type: "bigint", unset: null });
const amount = (): Column<PicoUsd> => ({ type: "bigint", unset: null });
const real = (): Column<number> => ({ type: "double precision", unset: null });
/** Column of a whole number or a boolean (1 is true). Its value is 0 until a command sets it. */
const count = (): Column<number, bigint> => ({ type: "bigint", unset: 0 });
const orNull = <Given, Stored>(column: Column<Given, Stored>) => column as Column<Given | null, Stored | null>;
/** Column that is null until the charge is settled. */
const settled = <Given, Stored>(column: Column<Given, Stored>) => column as Column<Given, Stored | null>;

const hold = {
  kind: text<HoldKind>(),
  admitted_at: whole(),
  key: text<string>(),
  team: orNull(text<string>()),
  route: text<string>(),
  model: text<string>(),
  price_group: orNull(text<string>()),
  stream: whole(),
  price_id: orNull(text<string>()),
  hold: orNull(amount()),
  tags: orNull(text<string>()),
  /** Id of the `farebox run` session that the tags contain. */
  session: orNull(text<string>()),
  /**
   * Catalogue model that may answer; the most expensive one if several may, until a post stores the one that answered.
   * Null in rows of earlier versions.
   */
  entry: orNull(text<string>()),
  /**
   * JSON array of all catalogue models that may answer. Set only while the charge is pending and has several models.
   */
  entries: orNull(text<string>()),
  end_user: orNull(text<string>()),
  labels: orNull(text<string>()),
  retry: whole(),
  held_by: orNull(text<string>()),
  held_output: orNull(whole()),
  output_cap: orNull(whole()),
  fitted: orNull(whole()),
};

const end = {
  ended_at: settled(whole()),
  status: orNull(whole()),
  served_model: orNull(text<string>()),
  gateway_request_id: orNull(text<string>()),
  duration_ms: orNull(real()),
  first_token_ms: orNull(real()),
  reason: orNull(text<string>()),
};

const post = {
  ...end,
  cost: orNull(amount()),
  list_cost: orNull(amount()),
  formula: settled(text<Formula>()),
  source: settled(text<Source>()),
  minimum_applied: count(),
  clamped: count(),
  ...(Object.fromEntries(tokenClasses.map((name) => [name, count()])) as Readonly<
    Record<TokenClass, Column<number, bigint>>
  >),
};

const note = {
  served_price_id: orNull(text<string>()),
  service_tier: orNull(text<string>()),
  tool_calls: orNull(text<string>()),
  runs: orNull(text<string>()),
  doubts: orNull(text<string>()),
  delivered_input: orNull(whole()),
  delivered_output: orNull(whole()),
};

/** Columns that are in none of the lists above. */
type LedgerColumns = {
  readonly seq: bigint;
  readonly id: string;
  readonly state: ChargeState;
  readonly owner: bigint;
  readonly overage: PicoUsd;
  readonly in_doubt: PicoUsd;
  readonly adjusts: string | null;
  readonly adjusted_by: string | null;
};

/** Row of `charges`, with integers as bigints. */
export type ChargeRow = LedgerColumns & StoredOf<typeof hold & typeof post & typeof note>;

type Value = string | number | bigint | boolean | null;

/** Values of a command in the order of its columns. An array, because sending property names to a thread takes time. */
export interface Values<Given> extends ReadonlyArray<Value> {
  /** Never set. Only the compiler uses it. */
  readonly given?: Given;
}

/** Columns that one kind of command sets. `Terms`: values of the command that are not stored in these columns. */
class ColumnList<C extends Columns, Terms = unknown> {
  readonly columns: C;
  readonly names: NamesOf<C>;
  /** Names of the columns, then of the terms. */
  readonly #valueNames: readonly string[];
  readonly #indexes: Readonly<Record<string, number>>;
  /** Returns a view of a command's values by name. Read single names from it; do not copy it. */
  readonly read: (values: Values<GivenOf<C> & Terms>) => GivenOf<C> & Terms;

  constructor(columns: C, terms: readonly (keyof Terms & string)[] = []) {
    this.columns = columns;
    this.names = Object.keys(columns);
    this.#valueNames = [...this.names, ...terms];
    this.#indexes = Object.fromEntries(this.#valueNames.map((name, index) => [name, index]));
    const View = viewClass<GivenOf<C> & Terms>(this.#valueNames);
    this.read = (values) => new View(values);
  }

  /** Returns the values of a command as an array: first the columns, then the terms. */
  of(given: GivenOf<C> & Terms): Values<GivenOf<C> & Terms> {
    // A loop, because V8 treats the result of `map` as an array with holes, which takes three times as long to clone.
    const values: Value[] = [];
    for (const name of this.#valueNames) values.push(given[name as keyof typeof given] as Value);
    return values;
  }

  /** Returns the values of the columns in the order of `names`. `decided`: values that the ledger sets instead. */
  stored(values: Values<GivenOf<C> & Terms>, decided: Partial<GivenOf<C>> = {}): (string | number | bigint | null)[] {
    const stored = values.slice(0, this.names.length) as (string | number | bigint | null)[];
    for (const name in decided)
      stored[this.#indexes[name] as number] = decided[name] as string | number | bigint | null;
    return stored;
  }
}

/** Returns a class that wraps an array and makes its elements available under names. */
function viewClass<Given>(names: readonly string[]): new (values: readonly Value[]) => Given {
  class View {
    readonly values: readonly Value[];
    constructor(values: readonly Value[]) {
      this.values = values;
    }
  }
  names.forEach((name, index) => {
    Object.defineProperty(View.prototype, name, {
      get(this: View) {
        return this.values[index];
      },
    });
  });
  return View as unknown as new (values: readonly Value[]) => Given;
}

interface HoldTerms {
  /** Text of the price, which is stored before the charge; null if the ledger already has it. */
  readonly canonical: string | null;
  readonly bounded: boolean;
  readonly anyModel: boolean;
  readonly isOwed: boolean;
  readonly firstSlice: PicoUsd | null;
  readonly sliceTokens: number | null;
}

interface NoteTerms {
  readonly servedCanonical: string | null;
  /** JSON of the prices of the runs, as pairs of id and text; null if all runs have the price of the request. */
  readonly runPrices: string | null;
  /** Catalogue model that answered; null if it is unknown, or if the request allowed only one model. */
  readonly answered: string | null;
}

export const holdColumns = new ColumnList<typeof hold, HoldTerms>(hold, [
  "canonical",
  "bounded",
  "anyModel",
  "isOwed",
  "firstSlice",
  "sliceTokens",
]);
/** Columns of every settlement. */
export const endColumns = new ColumnList(end);
export const postColumns = new ColumnList(post);
/** Columns that are null for most posted charges. */
export const noteColumns = new ColumnList<typeof note, NoteTerms>(note, ["servedCanonical", "runPrices", "answered"]);
export type ValuesOf<List> = List extends { of(given: infer Given): unknown } ? Values<Given> : never;

const firstToken = postColumns.names.indexOf(tokenClasses[0]);

/** Returns the ids and texts of the prices that a post needs in addition to that of its hold. */
export function pricesIn(notes: ValuesOf<typeof noteColumns>): readonly (readonly [id: string, canonical: string])[] {
  const { served_price_id: id, servedCanonical, runPrices } = noteColumns.read(notes);
  const served = id === null || servedCanonical === null ? [] : [[id, servedCanonical] as const];
  return runPrices === null ? served : [...served, ...JSON.parse(runPrices)];
}

/** Returns the token counts of a post command, in the order of `tokenClasses`. */
export function tokensIn(values: ValuesOf<typeof postColumns>): readonly number[] {
  return values.slice(firstToken, firstToken + tokenClasses.length) as number[];
}
