import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import { admin, ask } from "../api.ts";
import {
  button,
  caption,
  classes,
  div,
  h1,
  h2,
  header,
  input,
  label,
  p,
  section,
  small,
  span,
  table,
  tbody,
  td,
  th,
  thead,
  tr,
  type View,
} from "../dom.ts";
import { ago, count, instant, money } from "../format.ts";
import { icon } from "../icons.ts";
import { addressOf, setQuery, useRoute } from "../location.ts";
import { useMayEdit, useResource } from "../resource.ts";
import type { BudgetList, Key, KeyList, Standing, Team, TeamList } from "../types.ts";
import { badge, budgetBar, empty, failure, iconButton, link, moment, waiting } from "../ui.ts";
import { BudgetDialog, Budgets, periodNames, type BudgetTask } from "./budgets.ts";
import { KeyDialog, type KeyTask } from "./key-dialogs.ts";
import { boundWords } from "./words.ts";
import { TeamDialog, Teams, type TeamTask } from "./teams.ts";

interface Everything {
  readonly keys: readonly Key[];
  readonly moreKeys: boolean;
  readonly budgets: readonly Standing[];
  readonly moreBudgets: boolean;
  readonly teams: readonly Team[];
}

type Task =
  | { readonly of: "key"; readonly task: KeyTask }
  | { readonly of: "budget"; readonly task: BudgetTask }
  | { readonly of: "team"; readonly task: TeamTask };

const pageLength = 100;

async function readAll(pages: number, signal: AbortSignal): Promise<Everything> {
  const limit = Math.min(pages * pageLength, 1000);
  const [{ keys, next }, budgets, { teams }] = await Promise.all([
    ask<KeyList>(`${admin}/keys`, { query: { limit }, signal }),
    ask<BudgetList>(`${admin}/budgets`, { query: { limit }, signal }),
    ask<TeamList>(`${admin}/teams`, { signal }),
  ]);
  return {
    keys,
    moreKeys: next !== null && next !== undefined,
    budgets: budgets.budgets,
    moreBudgets: budgets.next !== null && budgets.next !== undefined,
    teams,
  };
}

export function Keys(): View {
  const { query } = useRoute();
  const mayEdit = useMayEdit();
  const [pages, setPages] = useState(1);
  const [task, setTask] = useState<Task | null>(null);
  const { data, fault, reload } = useResource((signal) => readAll(pages, signal), String(pages), { everyMs: 5000 });
  const asked = query.get("new");
  useEffect(() => {
    if (asked !== "key" || !mayEdit) return;
    setTask({ of: "key", task: { do: "create" } });
    setQuery({ new: null });
  }, [asked, mayEdit]);
  const create = () => setTask({ of: "key", task: { do: "create" } });
  return div(
    { class: "view" },
    header(
      { class: "view-head" },
      h1(null, "Keys & budgets"),
      mayEdit && button({ type: "button", class: "button primary", onClick: create }, icon("plus"), "Create a key"),
    ),
    fault !== null && failure({ fault, retry: reload }),
    data === null
      ? fault === null && waiting(8)
      : h(Content, { data, setTask, showMore: () => setPages((before) => before + 1) }),
    task !== null && dialogOf(task, data, () => setTask(null), reload),
  );
}

function dialogOf(open: Task, data: Everything | null, onClosed: () => void, onDone: () => void): View {
  const teams = data?.teams.map(({ name }) => name) ?? [];
  const keys = data?.keys.filter(({ state }) => state === "live").map(({ name }) => name) ?? [];
  if (open.of === "key") return h(KeyDialog, { task: open.task, teams, onClosed, onDone });
  if (open.of === "team") return h(TeamDialog, { task: open.task, onClosed, onDone });
  return h(BudgetDialog, { task: open.task, names: { keys, teams }, onClosed, onDone });
}

interface ContentProps {
  readonly data: Everything;
  readonly setTask: (task: Task) => void;
  readonly showMore: () => void;
}

function Content({ data: { keys, moreKeys, budgets, moreBudgets, teams }, setTask, showMore }: ContentProps): View {
  const mayEdit = useMayEdit();
  return div(
    { class: "stack roomy" },
    part(
      "Budgets",
      mayEdit &&
        button(
          {
            type: "button",
            class: "button",
            onClick: () =>
              setTask({ of: "budget", task: { do: "set", standing: null, scope: keys.length > 0 ? "key" : "all" } }),
          },
          icon("plus"),
          "Set a budget",
        ),
      budgets.length === 0
        ? empty(
            "No budgets",
            p(
              { class: "hint" },
              "A budget limits what a key, a team or everything may spend in an hour, a day, a month or in total. Requests that do not fit are refused before they cost anything.",
            ),
          )
        : h(Budgets, { budgets, onTask: (task) => setTask({ of: "budget", task }) }),
    ),
    part(
      "Keys",
      null,
      keys.length === 0
        ? empty(
            "No keys yet",
            p({ class: "hint" }, "Create a key for each person or program, to see its spend separately."),
          )
        : h(KeyList, { keys, budgets, setTask }),
    ),
    (moreKeys || moreBudgets) &&
      div({ class: "more" }, button({ type: "button", class: "button", onClick: showMore }, "Show more")),
    part(
      "Teams",
      mayEdit &&
        button(
          { type: "button", class: "button", onClick: () => setTask({ of: "team", task: { do: "create" } }) },
          icon("plus"),
          "Create a team",
        ),
      teams.length === 0
        ? empty("No teams", p({ class: "hint" }, "A team has models, limits and budgets that all of its keys share."))
        : h(Teams, { teams, onTask: (task) => setTask({ of: "team", task }) }),
    ),
  );
}

function part(title: string, actions: View | false | null, content: View): View {
  return section({ class: "part" }, header({ class: "part-head" }, h2(null, title), actions), content);
}

interface ListProps {
  readonly keys: readonly Key[];
  readonly budgets: readonly Standing[];
  readonly setTask: (task: Task) => void;
}

const searchFrom = 8;

function KeyList({ keys, budgets, setTask }: ListProps): View {
  const mayEdit = useMayEdit();
  const [wanted, setWanted] = useState("");
  const [closed, setClosed] = useState(false);
  const gone = keys.filter(({ state }) => state !== "live").length;
  const shown = keys.filter(
    (key) => (closed || key.state === "live") && `${key.name} ${key.team ?? ""}`.includes(wanted.trim().toLowerCase()),
  );
  return div(
    { class: "card list-card" },
    (keys.length >= searchFrom || gone > 0) &&
      div(
        { class: "list-tools" },
        label(
          { class: "filter" },
          span({ class: "unseen" }, "Find a key"),
          icon("search"),
          input({
            type: "search",
            placeholder: "Find a key",
            value: wanted,
            onInput: (event) => setWanted(event.currentTarget.value),
          }),
        ),
        gone > 0 &&
          label(
            { class: "check" },
            input({ type: "checkbox", checked: closed, onChange: (event) => setClosed(event.currentTarget.checked) }),
            `Show ${count(gone)} revoked or expired`,
          ),
      ),
    table(
      { class: "keys" },
      caption({ class: "unseen" }, "Internal keys"),
      thead(
        null,
        tr(
          null,
          ["Key", "Budget", "Models and limits", "Expires"].map((text) => th({ key: text, scope: "col" }, text)),
          th({ scope: "col" }, span({ class: "unseen" }, "Actions")),
        ),
      ),
      tbody(
        null,
        shown.map((key) =>
          keyRow(
            key,
            budgets.filter((standing) => isOf(standing, key)),
            mayEdit ? setTask : null,
          ),
        ),
      ),
    ),
    shown.length === 0 && p({ class: "hint quiet" }, "No matching keys."),
  );
}

/** Tells whether a budget belongs to the key: set on it, or its window of a budget for each key. */
function isOf({ scope, key }: Standing, { name }: Key): boolean {
  return scope === `key:${name}` || key === name;
}

function keyRow(key: Key, budgets: readonly Standing[], setTask: ((task: Task) => void) | null): View {
  const live = key.state === "live";
  const doThis = (what: "edit" | "rotate" | "revoke") => () => setTask?.({ of: "key", task: { do: what, key } });
  return tr(
    { key: key.id, class: classes(!live && "gone") },
    th(
      { scope: "row" },
      div(
        { class: "key-name" },
        link(addressOf("requests", { key: key.name }), key.name),
        !live && badge("calm", key.state),
      ),
      small({ class: "muted" }, key.team ?? "no team"),
    ),
    td({ class: "key-budget" }, budgets.length === 0 ? span({ class: "muted" }, "none") : budgets.map(miniBudget)),
    td({ class: "key-limits" }, ...boundWords(key)),
    td({ class: "key-expires" }, expiry(key)),
    td(
      { class: "row-actions" },
      live &&
        setTask !== null &&
        div(
          { class: "actions" },
          iconButton("standing", `Set a budget for ${key.name}`, () =>
            setTask({ of: "budget", task: { do: "set", standing: null, scope: `key:${key.name}` } }),
          ),
          iconButton("edit", `Change ${key.name}`, doThis("edit")),
          iconButton("rotate", `Rotate ${key.name}`, doThis("rotate")),
          iconButton("stop", `Revoke ${key.name}`, doThis("revoke")),
        ),
    ),
  );
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
