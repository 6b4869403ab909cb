import { h } from "preact";
import { admin, ask } from "../api.ts";
import { code, details, div, footer, p, pre, strong, summary, type View } from "../dom.ts";
import { instant } from "../format.ts";
import type { Key, NewKey } from "../types.ts";
import { actionButton, CopyButton, Dialog, snippet } from "../ui.ts";
import { firstRequest } from "./first-steps.ts";
import {
  boundFields,
  boundsOf,
  choice,
  confirmation,
  field,
  FormDialog,
  nameField,
  noBounds,
  textOf,
} from "./forms.ts";
import type { OpenDialog } from "./forms.ts";

function pathOf({ name }: Key): string {
  return `${admin}/keys/${encodeURIComponent(name)}`;
}

const lifetimes = [
  ["", "Never"],
  ["1d", "In 1 day"],
  ["7d", "In 7 days"],
  ["30d", "In 30 days"],
  ["90d", "In 90 days"],
  ["365d", "In 1 year"],
] as const;

export const createKey: OpenDialog = ({ teams, show, onClosed, onDone }) =>
  h(FormDialog, {
    title: "Create a key",
    verb: "Create key",
    onClosed,
    onDone,
    fields: [
      nameField("alice"),
      div({ class: "field-row" }, teamField(teams, ""), choice("Expires", { name: "expires", options: lifetimes })),
      details({ class: "more-fields", key: "more" }, summary(null, "Models and limits"), boundFields(noBounds)),
    ],
    save: async (form) => {
      const [team, expires] = [textOf(form, "team"), textOf(form, "expires")];
      const body = {
        name: textOf(form, "name"),
        ...boundsOf(form),
        ...(team !== "" && { team }),
        ...(expires !== "" && { expires }),
      };
      show(shownOnce(await ask<NewKey>(`${admin}/keys`, { method: "POST", body })));
      return null;
    },
  });

export function editKey(key: Key): OpenDialog {
  return ({ teams, onClosed, onDone }) =>
    h(FormDialog, {
      title: `Change ${key.name}`,
      verb: "Save",
      onClosed,
      onDone,
      fields: [teamField(teams, key.team ?? ""), ...boundFields(key)],
      save: async (form) => {
        const team = textOf(form, "team");
        await ask(pathOf(key), { method: "PATCH", body: { team: team === "" ? null : team, ...boundsOf(form) } });
        return `Changed ${key.name}.`;
      },
    });
}

export function revokeKey(key: Key): OpenDialog {
  return ({ onClosed, onDone }) =>
    confirmation("Its next request is refused. A revoked key cannot be restored. Its charges stay in the ledger.", {
      title: `Revoke ${key.name}?`,
      verb: "Revoke",
      onClosed,
      onDone,
      save: async () => {
        await ask(`${pathOf(key)}/revoke`, { method: "POST" });
        return `Revoked ${key.name}.`;
      },
    });
}

function teamField(known: readonly string[], defaultValue: string): View {
  return field("Team", { name: "team", known, defaultValue, placeholder: "none" });
}

const overlaps = [
  ["0s", "Ends at once"],
  ["1h", "Valid for 1 hour"],
  ["24h", "Valid for 24 hours"],
  ["168h", "Valid for 7 days"],
] as const;

export function rotateKey(key: Key): OpenDialog {
  return ({ show, onClosed, onDone }) =>
    h(FormDialog, {
      title: `Rotate ${key.name}`,
      verb: "Create secret",
      onClosed,
      onDone,
      fields: choice("Current secret", { name: "overlap", options: overlaps, chosen: "24h" }),
      save: async (form) => {
        const body = { overlap: textOf(form, "overlap") };
        show(shownOnce(await ask<NewKey>(`${pathOf(key)}/rotate`, { method: "POST", body })));
        return null;
      },
    });
}

/** Shows the key's text once, because the server does not store it. */
function shownOnce({ name, key, previous_valid_until: until }: NewKey): OpenDialog {
  const body = (close: () => void) =>
    div(
      { class: "form" },
      p(null, strong(null, "Copy it now: it is shown only once."), " Farebox stores only its SHA-256."),
      div(
        { class: "secret" },
        pre({ tabIndex: 0, "aria-label": "The key" }, code(null, key)),
        h(CopyButton, { text: key, label: "the key" }),
      ),
      typeof until === "string" &&
        p({ class: "hint" }, `The previous secret is valid until ${instant(until, "moment")}.`),
      details(null, summary(null, "Try it in a terminal"), snippet(firstRequest(key), "the request")),
      footer({ class: "dialog-foot" }, actionButton(close, "Done", { class: "button primary" })),
    );
  return ({ onClosed }) => h(Dialog, { title: `Key ${name}`, onClosed, body });
}
