import { h } from "preact";
import { adminBase, ask } from "../api.ts";
import { div, small, span, type View } from "../dom.ts";
import { count, counted } from "../format.ts";
import { icon } from "../icons.ts";
import { listView, useList } from "../list.ts";
import { addressOf, goTo } from "../location.ts";
import { useAnswer, useMayEdit } from "../resource.ts";
import { figures } from "../table.ts";
import type { TeamDetailsJson, ListedTeamJson } from "../types.ts";
import { actionButton, Card, empty, factsOf, instantOf, link, page, view } from "../ui.ts";
import { AuditTrail } from "./audit.ts";
import { budgetsPart, fullestCell } from "./budgets.ts";
import {
  addButton,
  restrictionFields,
  restrictionsOf,
  confirmation,
  nameField,
  noRestrictions,
  textOf,
  useDialogs,
} from "./forms.ts";
import type { Form, Show } from "./forms.ts";
import { restrictionFacts } from "./key.ts";
import { usageColumns } from "./keys.ts";
import { RecentRequests, Refused, SpendCard, useSubject, type SubjectData } from "./subject.ts";

export function Teams(): View {
  const mayEdit = useMayEdit();
  const list = useList<ListedTeamJson>({ path: `${adminBase}/teams`, field: "teams", sort: "spent", order: "desc" });
  const { show, dialog } = useDialogs(list.reload);
  return view(
    { title: "Teams", side: mayEdit && addButton("Create a team", () => show(createTeam()), "button primary") },
    listView({
      list,
      search: "Find a team",
      whenEmpty: empty("No teams", "A team has models, limits and budgets that all of its keys share."),
      caption: "Teams",
      class: "keys",
      keyOf: ({ name }) => name,
      onOpen: ({ name }) => goTo(addressOf(["teams", name])),
      columns: [
        {
          head: "Team",
          sort: "name",
          rowHeader: true,
          cell: ({ name, live_keys: keys }) => [
            link(addressOf(["teams", name]), name, "link row-open"),
            span({ class: "narrow-only" }, small({ class: "muted" }, counted(keys, "key"))),
          ],
        },
        figures<ListedTeamJson>("Keys", ({ live_keys: keys }) => count(keys), {
          sort: "keys",
          class: "right wide-only",
        }),
        { head: "Fullest budget", sort: "share", cellClass: "key-budget", cell: ({ fullest }) => fullestCell(fullest) },
        ...usageColumns((team) => ({ team })),
      ],
    }),
    dialog,
  );
}

/** Shows one team: its spend, budgets, keys, requests, refusals, limits and changes. */
export function TeamPage({ name }: { readonly name: string }): View {
  const resource = useAnswer<TeamDetailsJson>(pathOf(name), 5000);
  const loads = useSubject({ kind: "team", name });
  const mayEdit = useMayEdit();
  const { show, dialog } = useDialogs(resource.reload);
  const { data } = resource;
  const actions = (team: TeamDetailsJson) =>
    div(
      { class: "actions" },
      actionButton(() => show(editTeam(team)), [icon("edit"), "Edit"]),
      actionButton(() => show(removeTeam(team)), [icon("bin"), "Remove"]),
    );
  return page(
    {
      title: name,
      back: link(addressOf("teams"), "Teams"),
      side: data !== null && mayEdit && actions(data),
      resource,
      lines: 6,
      content: (team) => teamContent(team, loads, mayEdit ? show : null),
    },
    dialog,
  );
}

function teamContent(team: TeamDetailsJson, { subject, refused, spend }: SubjectData, show: Show | null): View {
  const { name, usage, budgets, keys } = team;
  return div(
    { class: "stack" },
    h(Refused, { subject, refused, budgets }),
    h(SpendCard, { subject, spend, usage }),
    budgetsPart({
      budgets,
      scope: `team:${name}`,
      show,
      whenEmpty: empty("No budgets", "A budget of the team limits what its keys may spend together."),
    }),
    div(
      { class: "columns" },
      h(RecentRequests, { subject }),
      h(
        Card,
        {
          title: "Access",
          actions: link(addressOf("keys", { team: name }), counted(keys.length, "key"), "button small"),
        },
        factsOf({ ...restrictionFacts(team), Created: instantOf(team.created_at, "minute") }),
      ),
    ),
    h(AuditTrail, { about: `team:${name}` }),
  );
}

function createTeam(): Form {
  return {
    title: "Create a team",
    verb: "Create team",
    fields: [nameField("research"), ...restrictionFields(noRestrictions)],
    save: (form) =>
      ask(`${adminBase}/teams`, { method: "POST", body: { name: textOf(form, "name"), ...restrictionsOf(form) } }),
    done: (form) => `Created team ${textOf(form, "name")}.`,
  };
}

function editTeam(team: TeamDetailsJson): Form {
  return {
    title: `Change the team ${team.name}`,
    verb: "Save",
    fields: restrictionFields(team),
    save: (form) => ask(pathOf(team.name), { method: "PATCH", body: restrictionsOf(form) }),
    done: `Changed team ${team.name}.`,
  };
}

function removeTeam({ name }: TeamDetailsJson): Form {
  return confirmation("A team with live keys or budgets cannot be removed.", {
    title: `Remove the team ${name}?`,
    verb: "Remove",
    onDone: () => goTo(addressOf("teams")),
    save: () => ask(pathOf(name), { method: "DELETE" }),
    done: `Removed team ${name}.`,
  });
}

function pathOf(name: string): string {
  return `${adminBase}/teams/${encodeURIComponent(name)}`;
}
