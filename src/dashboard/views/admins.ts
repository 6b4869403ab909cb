import { h } from "preact";
import { adminBase, ask } from "../api.ts";
import { div, type View } from "../dom.ts";
import { useAnswer, useMayEdit, useUser } from "../resource.ts";
import { showSecret } from "../secret.ts";
import { dataTable } from "../table.ts";
import type { AdminJson, AdminListJson, NewAdminJson } from "../types.ts";
import { badge, empty, iconButton, muted, page, timeAgo } from "../ui.ts";
import { addButton, choice, confirmation, lifetimes, nameField, textOf, useDialogs } from "./forms.ts";
import type { Form, Show } from "./forms.ts";

/** Lists the admins. Editors create and revoke them. */
export function Admins(): View {
  const mayEdit = useMayEdit();
  const resource = useAnswer<AdminListJson>(`${adminBase}/admins`, 15_000, { limit: 1000 });
  const { show, dialog } = useDialogs(resource.reload);
  return page(
    {
      title: "Admins",
      hint: "Viewers can only read. Editors can also make changes.",
      side: mayEdit && addButton("Create an admin", () => show(createAdmin()), "button primary"),
      resource,
      lines: 4,
      content: ({ admins }) =>
        admins.length === 0
          ? empty("No admins yet", "You are signed in with FAREBOX_ADMIN_TOKEN. Create an admin for each person.")
          : h(Listed, { admins, show }),
    },
    dialog,
  );
}

function Listed({ admins, show }: { readonly admins: readonly AdminJson[]; readonly show: Show }): View {
  const { who } = useUser();
  const mayEdit = useMayEdit();
  return div(
    { class: "card list-card" },
    dataTable({
      caption: "Admins",
      class: "keys",
      rows: admins,
      keyOf: ({ id }) => id,
      rowClass: ({ state }) => (state === "live" ? "" : "gone"),
      columns: [
        {
          head: "Admin",
          rowHeader: true,
          cell: ({ name, role, state }) =>
            div(
              { class: "key-name" },
              name,
              badge(role === "editor" ? "accent" : "calm", role),
              state !== "live" && badge("calm", state),
              name === who.name && muted("you"),
            ),
        },
        { head: "Created", cellClass: "created", cell: ({ created_at: at }) => timeAgo(at) },
        { head: "Expires", cellClass: "expires", cell: ({ expires_at: at }) => timeAgo(at) },
        {
          head: "Actions",
          unseen: true,
          cellClass: "row-actions",
          cell: (row) =>
            mayEdit &&
            row.state === "live" &&
            div(
              { class: "actions" },
              iconButton("stop", `Revoke ${row.name}`, () => show(revokeAdmin(row))),
            ),
        },
      ],
    }),
  );
}

function createAdmin(): Form {
  return {
    title: "Create an admin",
    verb: "Create token",
    fields: [
      nameField("carol"),
      div(
        { class: "field-row" },
        choice("Role", {
          name: "role",
          options: [
            ["viewer", "Viewer: reads"],
            ["editor", "Editor: reads and changes"],
          ],
        }),
        choice("Expires", { name: "expires", options: lifetimes }),
      ),
    ],
    save: async (form) => {
      const expires = textOf(form, "expires");
      const body = { name: textOf(form, "name"), role: textOf(form, "role"), ...(expires !== "" && { expires }) };
      const { name, token } = await ask<NewAdminJson>(`${adminBase}/admins`, { method: "POST", body });
      showSecret({ title: `Admin ${name}`, what: "the token", text: token });
    },
    done: (form) => `Created admin ${textOf(form, "name")}.`,
  };
}

function revokeAdmin({ name }: AdminJson): Form {
  const text =
    "The token is refused from its next request, and the admin’s sessions end. A revoked token cannot be restored.";
  return confirmation(text, {
    title: `Revoke ${name}?`,
    verb: "Revoke",
    save: () => ask(`${adminBase}/admins/${encodeURIComponent(name)}/revoke`, { method: "POST" }),
    done: `Revoked ${name}.`,
  });
}
