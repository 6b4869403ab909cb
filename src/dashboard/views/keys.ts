import { useEffect, useState } from "preact/hooks";
import { h } from "preact";
import { admin, ask } from "../api.ts";
import { div, h2, header, input, label, p, section, small, span, type View } from "../dom.ts";
import { ago, count, instant, money } from "../format.ts";
import { icon } from "../icons.ts";
import { addressOf, setQuery, useRoute } from "../location.ts";
import { useMayEdit, useResource } from "../resource.ts";
import { dataTable } from "../table.ts";
import type { BudgetList, Key, KeyList as KeyPage, Standing, Team, TeamList } from "../types.ts";
import { actionButton, badge, budgetBar, empty, iconButton, link, moment, page, searchBox } from "../ui.ts";
import { Budgets, periodNames, setBudget } from "./budgets.ts";
import type { DialogDeps, OpenDialog } from "./forms.ts";
import { createKey, editKey, revokeKey, rotateKey } from "./key-dialogs.ts";
import { createTeam, Teams } from "./teams.ts";
import { boundWords } from "./words.ts";

interface Everything {
  readonly keys: readonly Key[];
  readonly budgets: readonly Standing[];
  readonly teams: readonly Team[];
  /** True if the server has more keys or budgets than were loaded. */
  readonly more: boolean;
}

const pageLength = 100;

async function readAll(pages: number, signal: AbortSignal): Promise<Everything> {
  const query = { limit: Math.min(pages * pageLength, 1000) };
  const [{ keys, next: nextKey }, { budgets, next: nextBudget }, { teams }] = await Promise.all([
    ask<KeyPage>(`${admin}/keys`, { query, signal }),
    ask<BudgetList>(`${admin}/budgets`, { query, signal }),
    ask<TeamList>(`${admin}/teams`, { signal }),
  ]);
  return { keys, budgets, teams, more: typeof (nextKey ?? nextBudget) === "string" };
}

export function Keys(): View {
  const { query } = useRoute();
  const mayEdit = useMayEdit();
  const [pages, setPages] = useState(1);
  const [dialog, setDialog] = useState<{ readonly open: OpenDialog } | null>(null);
  const resource = useResource((signal) => readAll(pages, signal), String(pages), { everyMs: 5000 });
  const show = (open: OpenDialog) => setDialog({ open });
  const asked = query.get("new");
  useEffect(() => {
    if (asked !== "key" || !mayEdit) return;
    show(createKey);
    setQuery({ new: null });
  }, [asked, mayEdit]);
  const { data, reload } = resource;
  return page(
    {
      title: "Keys & budgets",
      side: mayEdit && addButton("Create a key", () => show(createKey), "button primary"),
      resource,
      lines: 8,
      content: (data) => h(Content, { ...data, show, showMore: () => setPages((before) => before + 1) }),
    },
    dialog?.open({
      keys: data?.keys.filter(({ state }) => state === "live").map(({ name }) => name) ?? [],
      teams: data?.teams.map(({ name }) => name) ?? [],
      show,
      onClosed: () => setDialog(null),
      onDone: reload,
    }),
  );
}

type Show = DialogDeps["show"];

function addButton(text: string, onClick: () => void, name = "button"): View {
  return actionButton(onClick, [icon("plus"), text], { class: name });
}

type ContentProps = Everything & { readonly show: Show; readonly showMore: () => void };

function Content({ keys, budgets, teams, more, show, showMore }: ContentProps): View {
  const mayEdit = useMayEdit();
  return div(
    { class: "stack roomy" },
    part(
      "Budgets",
      mayEdit && addButton("Set a budget", () => show(setBudget(null, keys.length > 0 ? "key" : "all"))),
      budgets.length === 0
        ? empty(
            "No budgets",
            "A budget limits what a key, a team or everything may spend in an hour, a day, a month or in total. Requests that do not fit are refused before they cost anything.",
          )
        : h(Budgets, { budgets, show }),
    ),
    part(
      "Keys",
      null,
      keys.length === 0
        ? empty("No keys yet", "Create a key for each person or program, to see its spend separately.")
        : h(KeyList, { keys, budgets, show }),
    ),
    more && div({ class: "more" }, actionButton(showMore, "Show more")),
    part(
      "Teams",
      mayEdit && addButton("Create a team", () => show(createTeam)),
      teams.length === 0
        ? empty("No teams", "A team has models, limits and budgets that all of its keys share.")
        : h(Teams, { teams, show }),
    ),
  );
}

function part(title: string, actions: View | false | null, content: View): View {
  return section({ class: "part" }, header({ class: "part-head" }, h2(null, title), actions), content);
}

interface ListProps {
  readonly keys: readonly Key[];
  readonly budgets: readonly Standing[];
  readonly show: Show;
}

const searchFrom = 8;

function KeyList({ keys, budgets, show }: ListProps): View {
  const mayEdit = useMayEdit();
  const [wanted, setWanted] = useState("");
  const [closed, setClosed] = useState(false);
  const gone = keys.filter(({ state }) => state !== "live").length;
  const rows = keys.filter(
    (key) => (closed || key.state === "live") && `${key.name} ${key.team ?? ""}`.includes(wanted.trim().toLowerCase()),
  );
  return div(
    { class: "card list-card" },
    (keys.length >= searchFrom || gone > 0) &&
      div(
        { class: "list-tools" },
        searchBox("Find a key", wanted, setWanted),
        gone > 0 &&
          label(
            { class: "check" },
            input({ type: "checkbox", checked: closed, onChange: (event) => setClosed(event.currentTarget.checked) }),
            `Show ${count(gone)} revoked or expired`,
          ),
      ),
    dataTable({
      caption: "Internal keys",
      class: "keys",
      rows,
      keyOf: ({ id }) => id,
      rowClass: ({ state }) => (state === "live" ? "" : "gone"),
      columns: [
        { head: "Key", rowHeader: true, cell: nameCell },
        { head: "Budget", cellClass: "key-budget", cell: (key) => budgetsOf(key, budgets) },
        { head: "Models and limits", cellClass: "key-limits", cell: boundWords },
        { head: "Expires", cellClass: "key-expires", cell: expiry },
        {
          head: "Actions",
          unseen: true,
          cellClass: "row-actions",
          cell: (key) => mayEdit && key.state === "live" && keyActions(key, show),
        },
      ],
    }),
    rows.length === 0 && p({ class: "hint quiet" }, "No matching keys."),
  );
}

function nameCell({ name, state, team }: Key): View[] {
  return [
    div(
      { class: "key-name" },
      link(addressOf("requests", { key: name }), name),
      state !== "live" && badge("calm", state),
    ),
    small({ class: "muted" }, team ?? "no team"),
  ];
}

function keyActions(key: Key, show: Show): View {
  const { name } = key;
  return div(
    { class: "actions" },
    iconButton("standing", `Set a budget for ${name}`, () => show(setBudget(null, `key:${name}`))),
    iconButton("edit", `Change ${name}`, () => show(editKey(key))),
    iconButton("rotate", `Rotate ${name}`, () => show(rotateKey(key))),
    iconButton("stop", `Revoke ${name}`, () => show(revokeKey(key))),
  );
}

/** Shows the budgets of a key: budgets set on it, and its own windows of budgets that apply to each key. */
function budgetsOf({ name }: Key, all: readonly Standing[]): View | View[] {
  const own = all.filter(({ scope, key }) => scope === `key:${name}` || key === name);
  return own.length === 0 ? span({ class: "muted" }, "none") : own.map(miniBudget);
}

function miniBudget(standing: Standing): View {
  const { limit_usd: limit, spent_usd: spent, period } = standing;
  return div(
    { class: "mini-budget", key: `${standing.scope} ${period}` },
    budgetBar(standing),
    small(
      null,
      span({ class: "num", title: spent }, money(spent)),
      span({ class: "muted" }, ` of ${money(limit)} ${periodNames[period]}`),
    ),
  );
}

function expiry({ expires_at: at, previous_valid_until: until, state }: Key): View {
  const before =
    until !== null &&
    Date.parse(until) > Date.now() &&
    small({ class: "muted", title: instant(until, "full") }, `previous secret until ${instant(until, "moment")}`);
  if (at === null || state === "revoked") return span({ class: "muted" }, state === "revoked" ? "" : "never", before);
  return span(null, moment(at, ago(at)), before);
}
