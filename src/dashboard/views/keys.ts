import { h } from "preact";
import { useEffect } from "preact/hooks";
import { adminBase } from "../api.ts";
import { div, input, label, small, type Children, type View } from "../dom.ts";
import { ago } from "../format.ts";
import { firstPage, listView, SearchField, useList } from "../list.ts";
import { addressOf, goTo, setQuery, useRoute } from "../location.ts";
import { useMayEdit } from "../resource.ts";
import type { Column } from "../table.ts";
import type { ListedKeyJson, Usage } from "../types.ts";
import { amount, badge, empty, link, timeAgo, view } from "../ui.ts";
import { fullestCell } from "./budgets.ts";
import { refusedLink } from "./subject.ts";
import { addButton, useDialogs } from "./forms.ts";
import { createKey } from "./key-dialogs.ts";

/** Lists the live and suspended keys, or all keys if the address has `state=all`. */
export function Keys(): View {
  const { query } = useRoute();
  const mayEdit = useMayEdit();
  const showsAll = query.get("state") === "all";
  const list = useList<ListedKeyJson>({
    path: `${adminBase}/keys`,
    field: "keys",
    sort: "spent",
    order: "desc",
    filters: ["team"],
    query: { state: showsAll ? null : "live,suspended" },
  });
  const { show, dialog } = useDialogs(list.reload);
  const asked = query.get("new");
  useEffect(() => {
    if (asked !== "key" || !mayEdit) return;
    show(createKey());
    setQuery({ new: null });
  }, [asked, mayEdit]);
  return view(
    { title: "Keys", side: mayEdit && addButton("Create a key", () => show(createKey()), "button primary") },
    listView({
      list,
      search: "Find a key",
      tools: [h(SearchField, { key: "team", name: "Team", param: "team", resets: firstPage }), stateCheck(showsAll)],
      whenEmpty: empty(
        showsAll ? "No keys yet" : "No live keys",
        "Create a key for each person or program, to see its spend separately. ",
        !showsAll && link(addressOf("keys", { state: "all" }), "Show revoked and expired keys"),
      ),
      caption: "Internal keys",
      class: "keys",
      keyOf: ({ id }) => id,
      rowClass: ({ state }) => (state === "live" ? "" : "gone"),
      onOpen: ({ name }) => goTo(addressOf(["keys", name])),
      columns: [
        { head: "Key", sort: "name", rowHeader: true, cell: nameCell },
        { head: "Fullest budget", sort: "share", cellClass: "key-budget", cell: ({ fullest }) => fullestCell(fullest) },
        ...usageColumns((name) => ({ key: name })),
      ],
    }),
    dialog,
  );
}

function stateCheck(showsAll: boolean): View {
  return label(
    { class: "check", key: "state" },
    input({
      type: "checkbox",
      checked: showsAll,
      onChange: (event) => setQuery({ state: event.currentTarget.checked ? "all" : null, ...firstPage }),
    }),
    "Revoked and expired too",
  );
}

function nameCell({ name, state, team, expires_at: at }: ListedKeyJson): Children {
  return [
    div(
      { class: "key-name" },
      link(addressOf(["keys", name]), name, "link row-open"),
      state !== "live" && badge("calm", state),
    ),
    small({ class: "muted" }, team ?? "no team", state === "live" && at !== null && ` · expires ${ago(at)}`),
  ];
}

/** Column with the amount that each row has spent this month. */
export const spentColumn: Column<Pick<Used, "usage">> = {
  head: "Spent this month",
  sort: "spent",
  class: "right",
  cellClass: "spent",
  cell: ({ usage }) => amount(usage.spent_usd),
};

/** Column with the time of each row's last request. */
export const lastUsedColumn: Column<Pick<Used, "usage">> = {
  head: "Last used",
  sort: "last_used",
  class: "right",
  cellClass: "last-used",
  cell: ({ usage }) => timeAgo(usage.last_used_at),
};

type Used = { readonly name: string; readonly usage: Usage };

/**
 * Returns the columns that show the use of each row. `filterOf` returns the filter for the requests of the row with
 * this name.
 */
export function usageColumns(filterOf: (name: string) => Readonly<Record<string, string>>): readonly Column<Used>[] {
  return [
    spentColumn,
    {
      head: "Refused today",
      class: "right",
      cellClass: "refused",
      cell: ({ name, usage: { refused_today: refused } }) => refused > 0 && refusedLink(refused, filterOf(name)),
    },
    lastUsedColumn,
  ];
}
