import { h } from "preact";
import { admin, ask } from "../api.ts";
import { div, span, type View } from "../dom.ts";
import { useMayEdit } from "../resource.ts";
import { dataTable } from "../table.ts";
import type { Team } from "../types.ts";
import { iconButton } from "../ui.ts";
import { boundFields, boundsOf, confirmation, FormDialog, nameField, noBounds, textOf } from "./forms.ts";
import type { DialogDeps, OpenDialog } from "./forms.ts";
import { boundWords } from "./words.ts";

interface TeamsProps {
  readonly teams: readonly Team[];
  readonly show: DialogDeps["show"];
}

export function Teams({ teams, show }: TeamsProps): View {
  const mayEdit = useMayEdit();
  const actions = (team: Team) =>
    div(
      { class: "actions" },
      iconButton("edit", `Change the team ${team.name}`, () => show(editTeam(team))),
      iconButton("bin", `Delete the team ${team.name}`, () => show(deleteTeam(team))),
    );
  return div(
    { class: "card list-card" },
    dataTable({
      caption: "Teams",
      class: "keys",
      rows: teams,
      keyOf: ({ name }) => name,
      columns: [
        { head: "Team", rowHeader: true, cell: ({ name }) => name },
        { head: "Keys", cell: ({ keys }) => (keys.length === 0 ? span({ class: "muted" }, "none") : keys.join(", ")) },
        { head: "Models and limits", cellClass: "key-limits", cell: boundWords },
        { head: "Actions", unseen: true, cellClass: "row-actions", cell: (team) => mayEdit && actions(team) },
      ],
    }),
  );
}

export const createTeam: OpenDialog = ({ onClosed, onDone }) =>
  h(FormDialog, {
    title: "Create a team",
    verb: "Create team",
    onClosed,
    onDone,
    fields: [nameField("research"), ...boundFields(noBounds)],
    save: async (form) => {
      const name = textOf(form, "name");
      await ask(`${admin}/teams`, { method: "POST", body: { name, ...boundsOf(form) } });
      return `Created team ${name}.`;
    },
  });

function editTeam(team: Team): OpenDialog {
  return ({ onClosed, onDone }) =>
    h(FormDialog, {
      title: `Change the team ${team.name}`,
      verb: "Save",
      onClosed,
      onDone,
      fields: boundFields(team),
      save: async (form) => {
        await ask(pathOf(team), { method: "PATCH", body: boundsOf(form) });
        return `Changed team ${team.name}.`;
      },
    });
}

function deleteTeam(team: Team): OpenDialog {
  return ({ onClosed, onDone }) =>
    confirmation("A team that still has live keys or budgets is not deleted.", {
      title: `Delete the team ${team.name}?`,
      verb: "Delete",
      onClosed,
      onDone,
      save: async () => {
        await ask(pathOf(team), { method: "DELETE" });
        return `Deleted team ${team.name}.`;
      },
    });
}

function pathOf({ name }: Team): string {
  return `${admin}/teams/${encodeURIComponent(name)}`;
}
