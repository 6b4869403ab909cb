import { h } from "preact";
import { useEffect, useLayoutEffect, useState, type Dispatch, type StateUpdater } from "preact/hooks";
import { adminBase, ask, queryOf, type Parameters } from "./api.ts";
import { a, div, p, type Children, type View } from "./dom.ts";
import { icon } from "./icons.ts";
import { addressWith, entryState, goTo, setQuery, useRoute } from "./location.ts";
import { useAnswer, useResource, type Resource } from "./resource.ts";
import { dataTable, type Column, type Order, type TableProps } from "./table.ts";
import { actionButton, failure, searchInput, selectBox, suggestions, waiting } from "./ui.ts";

/*
 * Lists that the server searches, sorts and splits into pages. The address contains their state: `q`, `sort`, `order`,
 * the `cursor` of the page, and the parameters that a list declares as its filters.
 */

const pageLength = 50;

/** Page of a list: its rows, and the cursor of the next page; null on the last page. */
interface Page<Row> {
  readonly rows: readonly Row[];
  readonly next: string | null;
}

export interface List<Row> extends Resource<Page<Row>> {
  /** Current order, and the function that changes it; absent for a list with a fixed order. */
  readonly order?: Order;
  /** True if the address has a search or a filter. */
  readonly isFiltered: boolean;
  /** Parameters of the requests to the server, without the page. */
  readonly query: Parameters;
  readonly path: string;
}

interface ListOptions {
  readonly path: string;
  /** Name of the field in the answer that contains the rows. */
  readonly field: string;
  /** Default order, if the address has none; absent for a list with a fixed order. */
  readonly sort?: string;
  readonly order?: "asc" | "desc";
  /** Parameters of the address to send to the server, in addition to the search text. */
  readonly filters?: readonly string[];
  /** Further parameters to send to the server, which are not in the address. */
  readonly query?: Parameters;
  readonly everyMs?: number;
}

/** Columns that sort in ascending order first. All others, such as figures and times, sort in descending order first. */
const ascending = new Set(["name", "scope"]);

/** Loads a page of a list. The address states the page, the order and the filters. */
export function useList<Row>({ path, field, everyMs = 10_000, ...options }: ListOptions): List<Row> {
  const { query: given } = useRoute();
  const sort = given.get("sort") ?? options.sort;
  const order = (given.get("order") ?? options.order) === "asc" ? "asc" : "desc";
  const filters = ["q", ...(options.filters ?? [])].map((name) => [name, given.get(name)] as const);
  const sorting = sort === undefined ? {} : { sort, order };
  const query = { ...Object.fromEntries(filters), ...sorting, ...options.query };
  const all = { ...query, limit: pageLength, cursor: given.get("cursor") };
  const resource = useResource<Page<Row>>(
    async (signal) => {
      const answer = await ask<Record<string, unknown>>(path, { query: all, signal });
      return { rows: answer[field] as readonly Row[], next: (answer["next"] ?? null) as string | null };
    },
    `${path} ${JSON.stringify(all)}`,
    { everyMs },
  );
  const choose = (next: string) =>
    setQuery({
      sort: next,
      order: next === sort ? (order === "asc" ? "desc" : "asc") : ascending.has(next) ? "asc" : "desc",
      ...firstPage,
    });
  const isFiltered = filters.some(([, value]) => (value ?? "") !== "");
  return { ...resource, path, query, isFiltered, ...(sort !== undefined && { order: { sort, order, choose } }) };
}

/** Change of the address that shows the first page of a list. Include it in every change of the list's filters. */
export const firstPage = { cursor: null } as const;

interface ListProps<Row> extends Omit<TableProps<Row>, "rows" | "order"> {
  readonly list: List<Row>;
  /** Label of the search field, such as "Find a key"; absent for a list without a search. */
  readonly search?: string;
  /** Further filters next to the search field. */
  readonly tools?: Children;
  /** Content to show instead of a list that has no rows although no filter is set. */
  readonly whenEmpty: Children;
}

/** Shows a list with its search field, filters, sortable headings, pages and CSV link. */
export function listView<Row>({ list, search, tools, whenEmpty, ...table }: ListProps<Row>): View {
  const { data, fault, reload, order, path, query, isFiltered } = list;
  if (data !== null && data.rows.length === 0 && !isFiltered)
    return div(null, fault !== null && failure(fault), whenEmpty);
  return div(
    { class: "card list-card" },
    div(
      { class: "list-tools" },
      div(
        { class: "filters" },
        search !== undefined && h(SearchField, { name: search, param: "q", resets: firstPage }),
        tools,
        order !== undefined && sortChoice(order, table.columns),
      ),
      csvLink(path, query),
    ),
    fault !== null && failure(fault, reload),
    data === null ? fault === null && waiting(8) : dataTable({ ...table, rows: data.rows, ...(order && { order }) }),
    data?.rows.length === 0 && p({ class: "hint none-match" }, "Nothing matches."),
    data !== null && pages(data),
  );
}

/** Shows a selection of the order on narrow screens, where a list has no headings. */
export function sortChoice(
  { sort, choose }: Order,
  columns: readonly (Pick<Column<never>, "head" | "sort"> | false)[],
): View {
  const sorted = columns.filter((column) => column !== false).filter(({ sort: by }) => by !== undefined);
  return div(
    { class: "narrow-only" },
    selectBox({
      name: "Sort by",
      value: sort,
      options: sorted.map(({ head, sort: by = "" }) => [by, `Sort: ${head.toLowerCase()}`]),
      onChoose: choose,
    }),
  );
}

/** Shows a link that downloads all matching rows as CSV. */
export function csvLink(path: string, query: Parameters, title = "Download all rows that match"): View {
  const href = path + queryOf({ ...query, format: "csv" });
  return a({ class: "button small", href, download: "", title }, icon("download"), "CSV");
}

/**
 * Shows the buttons for the pages of a list. A user who opened a link to a later page can go back only to the first
 * page.
 */
function pages({ next }: Page<unknown>): View | null {
  const cursor = new URLSearchParams(location.search).get("cursor");
  const { earlier = [] } = entryState();
  if (cursor === null && next === null) return null;
  const show = (to: string | null, before: readonly string[]) => {
    goTo(addressWith({ cursor: to }), { state: { earlier: before } });
    document.getElementById("content")?.scrollIntoView();
  };
  return div(
    { class: "pages" },
    cursor !== null &&
      actionButton(
        () => show(earlier.at(-1) ?? null, earlier.slice(0, -1)),
        earlier.length > 0 ? "Previous" : "First page",
        { class: "button small" },
      ),
    next !== null &&
      actionButton(() => show(next, cursor === null ? [] : [...earlier, cursor]), "Next", { class: "button small" }),
  );
}

interface SearchProps {
  readonly name: string;
  /** Parameter of the address that contains the text. */
  readonly param: string;
  /** Other parameters to remove from the address when the text changes, such as the page of a list. */
  readonly resets?: Readonly<Record<string, null>>;
}

/** Pause after which typing counts as finished, in milliseconds. */
const typedMs = 200;

/**
 * Returns the text of a field whose value is in the address, and the function that sets the text. When the address
 * changes, its value replaces a text that differs. Effects on the text must run before the paint, because a later
 * effect could undo what the user has typed in the meantime.
 */
export function useTyped(value: string): [string, Dispatch<StateUpdater<string>>] {
  const [text, setText] = useState(value);
  useLayoutEffect(() => setText((typed) => (typed.trim() === value ? typed : value)), [value]);
  return [text, setText];
}

/** Returns the text as it was when the user last stopped typing. */
export function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), typedMs);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

interface NamesProps {
  readonly id: string;
  /** List of the admin API that contains the names. `field` is the field of its rows with the name. */
  readonly list: string;
  readonly field?: string;
  readonly query: Parameters;
}

/** Loads names from the server and suggests them for the input whose `list` attribute is `id`. */
export function SuggestedNames({ id, list, field = "name", query }: NamesProps): View {
  const { data } = useAnswer<Record<string, readonly Record<string, string>[]>>(
    `${adminBase}/${list}`,
    undefined,
    query,
  );
  return suggestions(id, data?.[list]?.map((row) => row[field] ?? "") ?? []);
}

/** Shows a search field whose placeholder is its name. Writes the text into the address when the user stops typing. */
export function SearchField({ name, param, resets = {} }: SearchProps): View {
  const value = useRoute().query.get(param) ?? "";
  const [text, setText] = useTyped(value);
  useLayoutEffect(() => {
    if (text.trim() === value) return undefined;
    const timer = setTimeout(() => setQuery({ ...resets, [param]: text.trim() }), typedMs);
    return () => clearTimeout(timer);
  }, [text, value, param]);
  return searchInput(name, text, setText);
}
