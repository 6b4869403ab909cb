import { button, caption as captionOf, classes, span, table, tbody, td, tfoot, th, thead, tr } from "./dom.ts";
import type { Children, View } from "./dom.ts";

/** Column of a table: its heading and the content of its cells. */
export interface Column<Row> {
  readonly head: string;
  /** True if only screen readers read the heading. */
  readonly unseen?: boolean;
  readonly cell: (row: Row) => Children;
  /** True if each cell is the heading of its row. */
  readonly rowHeader?: boolean;
  /** Class of the heading and of the cells. */
  readonly class?: string;
  /** Additional class of the cells. */
  readonly cellClass?: string;
  /** Number of columns that the cell takes; 0 leaves it out. */
  readonly spanOf?: (row: Row) => number;
}

interface TableProps<Row> {
  readonly caption: string;
  readonly captionClass?: string;
  readonly class: string;
  readonly key?: string | number;
  /** Columns of the table. A value of false is skipped. */
  readonly columns: readonly (Column<Row> | false)[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly rowClass?: (row: Row) => string;
  /** Opens a row after a click. For the keyboard, one cell needs an `openButton`. */
  readonly onOpen?: (row: Row) => void;
  /** Rows at the end of the table. */
  readonly foot?: Children;
}

export function dataTable<Row>(props: TableProps<Row>): View {
  const { key, caption, captionClass = "unseen", rows, keyOf, rowClass, onOpen, foot } = props;
  const columns = props.columns.filter((column) => column !== false);
  return table(
    { class: props.class, key },
    captionOf({ class: captionClass }, caption),
    thead(null, tr(null, columns.map(heading))),
    tbody(
      null,
      rows.map((row) =>
        tr(
          {
            key: keyOf(row),
            class: classes(onOpen !== undefined && "openable", rowClass?.(row)),
            ...(onOpen !== undefined && { onClick: () => onOpen(row) }),
          },
          columns.map((column) => cellOf(column, row)),
        ),
      ),
    ),
    foot !== undefined && tfoot(null, foot),
  );
}

function heading({ head, unseen, class: name }: Pick<Column<never>, "head" | "unseen" | "class">): View {
  return th(
    { key: head, scope: "col", class: classes(name) },
    unseen === true ? span({ class: "unseen" }, head) : head,
  );
}

function cellOf<Row>({ head, cell, rowHeader, class: name, cellClass, spanOf }: Column<Row>, row: Row): View | null {
  const colSpan = spanOf?.(row) ?? 1;
  if (colSpan === 0) return null;
  if (rowHeader === true) return th({ key: head, scope: "row" }, cell(row));
  return td({ key: head, class: classes(name, cellClass), ...(colSpan > 1 && { colSpan }) }, cell(row));
}

/** Returns a button that opens its row, for the keyboard and screen readers. */
export function openButton(open: () => void, text: Children, label?: string): View {
  const onClick = (event: MouseEvent) => {
    event.stopPropagation();
    open();
  };
  return button(
    { type: "button", class: "row-button", onClick, ...(label !== undefined && { "aria-label": label }) },
    text,
  );
}
