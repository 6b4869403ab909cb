import { h } from "preact";
import { admin, ask } from "../api.ts";
import { caption, div, span, table, tbody, td, th, thead, tr, type View } from "../dom.ts";
import { useMayEdit } from "../resource.ts";
import { say } from "../toasts.ts";
import type { Team } from "../types.ts";
import { iconButton } from "../ui.ts";
import { boundFields, boundsOf, confirmation, FormDialog, nameField, noBounds, textOf } from "./forms.ts";
import { boundWords } from "./words.ts";

export type TeamTask = { readonly do: "create" } | { readonly do: "edit" | "delete"; readonly team: Team };

interface TeamsProps {
  readonly teams: readonly Team[];
  readonly onTask: (task: TeamTask) => void;
}

export function Teams({ teams, onTask }: TeamsProps): View {
  const mayEdit = useMayEdit();
  return div(
    { class: "card list-card" },
    table(
      { class: "keys" },
      caption({ class: "unseen" }, "Teams"),
      thead(
        null,
        tr(
          null,
          ["Team", "Keys", "Models and limits"].map((text) => th({ key: text, scope: "col" }, text)),
          th({ scope: "col" }, span({ class: "unseen" }, "Actions")),
        ),
      ),
      tbody(
        null,
        teams.map((team) =>
          tr(
            { key: team.name },
            th({ scope: "row" }, team.name),
            td(null, team.keys.length === 0 ? span({ class: "muted" }, "none") : team.keys.join(", ")),
            td({ class: "key-limits" }, ...boundWords(team)),
            td(
              { class: "row-actions" },
              mayEdit &&
                div(
                  { class: "actions" },
                  iconButton("edit", `Change the team ${team.name}`, () => onTask({ do: "edit", team })),
                  iconButton("bin", `Delete the team ${team.name}`, () => onTask({ do: "delete", team })),
                ),
            ),
          ),
        ),
      ),
    ),
  );
}

interface TaskProps {
  readonly task: TeamTask;
  readonly onClosed: () => void;
  readonly onDone: () => void;
}

export function TeamDialog({ task, onClosed, onDone }: TaskProps): View {
  if (task.do === "delete") {
    const { name } = task.team;
    return confirmation({
      title: `Delete the team ${name}?`,
      verb: "Delete",
      danger: true,
      onClosed,
      text: "A team that still has live keys or budgets is not deleted.",
      work: async () => {
        await ask(pathOf(name), { method: "DELETE" });
        say(`Deleted team ${name}.`);
        onDone();
      },
    });
  }
  const team = task.do === "edit" ? task.team : null;
  const save = async (form: FormData) => {
    const body = boundsOf(form);
    const name = team?.name ?? textOf(form, "name");
    if (team === null) await ask(`${admin}/teams`, { method: "POST", body: { name, ...body } });
    else await ask(pathOf(name), { method: "PATCH", body });
    say(`${team === null ? "Created" : "Changed"} team ${name}.`);
    onDone();
  };
  return h(FormDialog, {
    title: team === null ? "Create a team" : `Change the team ${team.name}`,
    verb: team === null ? "Create team" : "Save",
    save,
    onClosed,
    fields: [team === null && nameField("research"), ...boundFields(team ?? noBounds)],
  });
}

function pathOf(name: string): string {
  return `${admin}/teams/${encodeURIComponent(name)}`;
}
