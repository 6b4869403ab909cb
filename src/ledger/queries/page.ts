import type { ListQuery } from "../../ports/lists.ts";
import { rowsOf, type Query, type Value } from "./query.ts";

/** Column that determines the order of rows. */
type SortColumn = readonly [name: string, type: "integer" | "real" | "text"];

/** Rows of a list. `pageOf` selects a page of them. */
export interface ListRows<Sort extends string> {
  /** Statement that selects the rows. It must select the columns of `sorts`. */
  readonly sql: string;
  readonly values: readonly Value[];
  /** Columns of each sort order. Their values together identify a row. None of them is null. */
  readonly sorts: Readonly<Record<Sort, readonly SortColumn[]>>;
}

/** Rows of a page with the cursor of the next page. */
interface Page<Row> {
  readonly rows: readonly Row[];
  readonly next: string | null;
}

/**
 * Returns a page of rows. The cursor contains the last row's sort values. A row that does not change is therefore
 * neither skipped nor repeated while other rows change. Returns null if the cursor is malformed or belongs to another
 * sort order. `skip`: number of rows to skip before the page.
 */
export function* pageOf<Row extends object, Sort extends string>(
  { sql, values, sorts }: ListRows<Sort>,
  {
    sort,
    order,
    limit,
    after,
    skip = 0,
  }: Pick<ListQuery<Sort>, "sort" | "order" | "limit" | "after"> & { readonly skip?: number },
): Query<Page<Row> | null> {
  const columns = sorts[sort];
  const last = after === undefined ? [] : readCursor(after, [sort, order], columns);
  if (last === null) return null;
  const names = columns.map(([name]) => name);
  const isAfter =
    last.length === 0 ? "" : `where (${names.join(", ")}) ${order === "asc" ? ">" : "<"} (${placeholdersOf(columns)})`;
  const rows = yield* rowsOf<Row>({
    sql: `select * from (${sql}) listed ${isAfter} order by ${names.map((name) => `${name} ${order}`).join(", ")} limit ? ${skip === 0 ? "" : "offset ?"}`,
    values: [...values, ...last, limit + 1, ...(skip === 0 ? [] : [skip])],
  });
  const shown = rows.slice(0, limit);
  const end = rows.length > limit ? (shown.at(-1) as Readonly<Record<string, Value>> | undefined) : undefined;
  return {
    rows: shown,
    next: end === undefined ? null : cursorOf([sort, order, ...names.map((name) => String(end[name]))]),
  };
}

function placeholdersOf(columns: readonly SortColumn[]): string {
  return columns.map(([, type]) => (type === "real" ? "cast(? as double precision)" : "?")).join(", ");
}

export function cursorOf(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString("base64url");
}

/** Returns the sort values in a cursor; null if the cursor is malformed or belongs to another sort order. */
export function readCursor(cursor: string, order: readonly string[], columns: readonly SortColumn[]): Value[] | null {
  const parts = partsOf(cursor);
  if (parts === null || parts.length !== order.length + columns.length) return null;
  if (order.some((each, index) => parts[index] !== each)) return null;
  const values = columns.map(([, type], index) => valueOf(parts[order.length + index], type));
  return values.some((value) => value === undefined) ? null : (values as Value[]);
}

function partsOf(cursor: string): readonly unknown[] | null {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    return Array.isArray(parts) ? parts : null;
  } catch {
    return null;
  }
}

function valueOf(part: unknown, type: SortColumn[1]): Value | undefined {
  if (typeof part !== "string") return undefined;
  if (type === "text") return part.includes("\0") ? undefined : part;
  if (type === "integer") return /^-?\d{1,19}$/.test(part) && isInt64(BigInt(part)) ? BigInt(part) : undefined;
  const number = Number(part);
  return part !== "" && Number.isFinite(number) ? number : undefined;
}

/** Returns true if the value fits into an integer column. */
function isInt64(value: bigint): boolean {
  return BigInt.asIntN(64, value) === value;
}

/**
 * Returns the SQL condition that a column contains `search`. The databases ignore case only for ASCII letters. Other
 * letters match if the column has them as written in `search`, all in lower case, or all in upper case.
 */
export function containing(
  column: string,
  search: string | undefined,
): { readonly sql: string; readonly values: readonly string[] } {
  if (search === undefined || search === "") return { sql: "true", values: [] };
  const forms = [search, search.toLowerCase(), search.toUpperCase()].map((form) =>
    form.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase()),
  );
  const patterns = [...new Set(forms)].map((form) => `%${form.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`);
  return {
    sql: `(${patterns.map(() => String.raw`lower(${column}) like ? escape '\'`).join(" or ")})`,
    values: patterns,
  };
}

/** Conditions of a statement, joined with `and`, and their values. */
export class Conditions {
  readonly #texts: string[] = [];
  readonly values: Value[] = [];

  /** Adds a condition unless one of its values is undefined. */
  add(sql: string, ...given: readonly (Value | undefined)[]): this {
    const known = given.filter((value) => value !== undefined);
    if (known.length < given.length) return this;
    this.#texts.push(sql);
    this.values.push(...known);
    return this;
  }

  get isEmpty(): boolean {
    return this.#texts.length === 0;
  }

  get sql(): string {
    return this.isEmpty ? "true" : this.#texts.join(" and ");
  }
}
