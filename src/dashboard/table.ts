import { button, caption as captionOf, classes, span, table, tbody, td, tfoot, th, thead, tr } from "./dom.ts";
import type { Children, View } from "./dom.ts";
import { icon } from "./icons.ts";

/** Column of a table: its heading and the content of its cells. */
export interface Column<Row> {
  readonly head: string;
  /** True if the heading is only for screen readers. */
  readonly unseen?: boolean;
  readonly cell: (row: Row) => Children;
  /** True if each cell is the heading of its row. */
  readonly rowHeader?: boolean;
  /** Class of the heading and of the cells. */
  readonly class?: string;
  /** Additional class of the cells. */
  readonly cellClass?: string;
  /** Name of the server's sort order for this column. If present, the heading of the column sorts the list. */
  readonly sort?: string;
  /** Number of columns that the cell spans; 0 omits the cell. */
  readonly spanOf?: (row: Row) => number;
}

/** Returns a right-aligned column of figures. */
export function figures<Row>(head: string, cell: Column<Row>["cell"], more: Partial<Column<Row>> = {}): Column<Row> {
  return { head, cell, class: "right", cellClass: "num", ...more };
}

/** Current order of a list, and the function that sorts the list by a column. */
export interface Order {
  readonly sort: string;
  readonly order: "asc" | "desc";
  readonly choose: (sort: string) => void;
}

export interface TableProps<Row> {
  readonly caption: string;
  readonly captionClass?: string;
  readonly class: string;
  readonly key?: string | number;
  /** Columns of the table. A value of false is skipped. */
  readonly columns: readonly (Column<Row> | false)[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly rowClass?: (row: Row) => string;
  /** Opens a row after a click. For the keyboard, one cell needs an `openButton` or a link with the class "row-open". */
  readonly onOpen?: (row: Row) => void;
  /** Current order of a list that the server sorts, and the function that changes it. */
  readonly order?: Order;
  /** Rows at the end of the table. */
  readonly foot?: Children;
}

export function dataTable<Row>(props: TableProps<Row>): View {
  const { key, caption, captionClass = "unseen", rows, keyOf, rowClass, onOpen, order, foot } = props;
  const columns = props.columns.filter((column) => column !== false);
  return table(
    { class: props.class, key },
    captionOf({ class: captionClass }, caption),
    thead(
      null,
      tr(
        null,
        columns.map((column) => heading(column, order)),
      ),
    ),
    tbody(
      { onKeyDown: moveInRows },
      rows.map((row) =>
        tr(
          {
            key: keyOf(row),
            class: classes(onOpen !== undefined && "openable", rowClass?.(row)),
            ...(onOpen !== undefined && { onClick: (event) => !isControl(event) && onOpen(row) }),
          },
          columns.map((column) => cellOf(column, row)),
        ),
      ),
    ),
    foot !== undefined && tfoot(null, foot),
  );
}

function heading({ head, unseen, class: name, sort }: Column<never>, order: Order | undefined): View {
  if (sort === undefined || order === undefined)
    return th(
      { key: head, scope: "col", class: classes(name) },
      unseen === true ? span({ class: "unseen" }, head) : head,
    );
  const direction = order.sort !== sort ? "none" : order.order === "asc" ? "ascending" : "descending";
  return th(
    { key: head, scope: "col", class: classes(name), "aria-sort": direction },
    button({ type: "button", class: "sort", onClick: () => order.choose(sort) }, head, icon("down")),
  );
}

/** Returns true for a click on a link or button within a row. */
function isControl({ target }: MouseEvent): boolean {
  return target instanceof Element && target.closest("a, button") !== null;
}

/** Moves the focus between rows with the arrow keys, Home and End. */
function moveInRows(event: KeyboardEvent): void {
  const body = event.currentTarget as HTMLElement;
  const at = event.target as HTMLElement;
  if (!at.classList.contains("row-open")) return;
  const stops = [...body.querySelectorAll<HTMLElement>(".row-open")];
  const now = stops.indexOf(at);
  const next = { ArrowUp: now - 1, ArrowDown: now + 1, Home: 0, End: stops.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  stops[next]?.focus();
}

function cellOf<Row>({ head, cell, rowHeader, class: name, cellClass, spanOf }: Column<Row>, row: Row): View | null {
  const colSpan = spanOf?.(row) ?? 1;
  if (colSpan === 0) return null;
  if (rowHeader === true) return th({ key: head, scope: "row", class: classes(name, cellClass) }, cell(row));
  return td({ key: head, class: classes(name, cellClass), ...(colSpan > 1 && { colSpan }) }, cell(row));
}

/** Returns a button that opens its row, for the keyboard and screen readers. */
export function openButton(open: () => void, text: Children, label?: string): View {
  return button(
    {
      type: "button",
      class: "row-button row-open",
      onClick: open,
      ...(label !== undefined && { "aria-label": label }),
    },
    text,
  );
}
