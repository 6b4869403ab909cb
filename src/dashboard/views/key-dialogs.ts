import { h } from "preact";
import { useState } from "preact/hooks";
import { admin, ask } from "../api.ts";
import {
  button,
  code,
  datalist,
  details,
  div,
  footer,
  input,
  option,
  p,
  pre,
  select,
  strong,
  summary,
  type View,
} from "../dom.ts";
import { instant } from "../format.ts";
import { say } from "../toasts.ts";
import type { Key, NewKey } from "../types.ts";
import { CopyButton, Dialog, snippet } from "../ui.ts";
import { firstRequest } from "./first-steps.ts";
import { boundFields, boundsOf, confirmation, field, FormDialog, nameField, noBounds, textOf } from "./forms.ts";

export type KeyTask = { readonly do: "create" } | { readonly do: "edit" | "rotate" | "revoke"; readonly key: Key };

interface TaskProps {
  readonly task: KeyTask;
  readonly teams: readonly string[];
  readonly onClosed: () => void;
  readonly onDone: () => void;
}

export function KeyDialog({ task, teams, onClosed, onDone }: TaskProps): View {
  const [made, setMade] = useState<NewKey | null>(null);
  if (made !== null) return shownOnce(made, onClosed);
  const given = (key: NewKey) => {
    setMade(key);
    onDone();
  };
  switch (task.do) {
    case "create":
      return createForm(teams, given, onClosed);
    case "edit":
      return editForm(task.key, { teams, onClosed, onDone });
    case "rotate":
      return rotateForm(task.key, given, onClosed);
    case "revoke":
      return confirmation({
        title: `Revoke ${task.key.name}?`,
        verb: "Revoke",
        danger: true,
        onClosed,
        text: "Its next request is refused. A revoked key cannot be restored. Its charges stay in the ledger.",
        work: async () => {
          await ask(`${pathOf(task.key)}/revoke`, { method: "POST" });
          say(`Revoked ${task.key.name}.`);
          onDone();
        },
      });
  }
}

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

function createForm(teams: readonly string[], given: (key: NewKey) => void, onClosed: () => void): View {
  const save = async (form: FormData) => {
    const [team, expires] = [textOf(form, "team"), textOf(form, "expires")];
    const body = {
      name: textOf(form, "name"),
      ...boundsOf(form),
      ...(team !== "" && { team }),
      ...(expires !== "" && { expires }),
    };
    given(await ask<NewKey>(`${admin}/keys`, { method: "POST", body }));
  };
  return h(FormDialog, {
    title: "Create a key",
    verb: "Create key",
    stays: true,
    save,
    onClosed,
    fields: [
      nameField("alice"),
      div(
        { class: "field-row" },
        teamField(teams, ""),
        field(
          "Expires",
          select(
            { name: "expires" },
            lifetimes.map(([value, text]) => option({ key: value, value }, text)),
          ),
        ),
      ),
      moreFields(),
    ],
  });
}

function editForm(key: Key, { teams, onClosed, onDone }: Omit<TaskProps, "task">): View {
  const save = async (form: FormData) => {
    const team = textOf(form, "team");
    const body = { team: team === "" ? null : team, ...boundsOf(form) };
    await ask(pathOf(key), { method: "PATCH", body });
    say(`Changed ${key.name}.`);
    onDone();
  };
  return h(FormDialog, {
    title: `Change ${key.name}`,
    verb: "Save",
    save,
    onClosed,
    fields: [teamField(teams, key.team ?? ""), ...boundFields(key)],
  });
}

function teamField(teams: readonly string[], value: string): View {
  return field("Team", [
    input({
      name: "team",
      list: "known-teams",
      defaultValue: value,
      autoComplete: "off",
      spellcheck: false,
      placeholder: "none",
    }),
    datalist(
      { id: "known-teams", key: "known" },
      teams.map((name) => option({ key: name, value: name })),
    ),
  ]);
}

/** Fields that most keys leave empty. */
function moreFields(): View {
  return details({ class: "more-fields", key: "more" }, summary(null, "Models and limits"), boundFields(noBounds));
}

const overlaps = [
  ["0s", "Ends at once"],
  ["1h", "Valid for 1 hour"],
  ["24h", "Valid for 24 hours"],
  ["168h", "Valid for 7 days"],
] as const;

function rotateForm(key: Key, given: (key: NewKey) => void, onClosed: () => void): View {
  const save = async (form: FormData) =>
    given(await ask<NewKey>(`${pathOf(key)}/rotate`, { method: "POST", body: { overlap: textOf(form, "overlap") } }));
  return h(FormDialog, {
    title: `Rotate ${key.name}`,
    verb: "Create secret",
    stays: true,
    save,
    onClosed,
    fields: field(
      "Current secret",
      select(
        { name: "overlap" },
        overlaps.map(([value, text]) => option({ key: value, value, selected: value === "24h" }, text)),
      ),
    ),
  });
}

/** Shows the key's text once: the server does not store it. */
function shownOnce({ name, key, previous_valid_until: until }: NewKey, onClosed: () => void): View {
  return h(Dialog, {
    title: `Key ${name}`,
    onClosed,
    body: (close) =>
      div(
        { class: "form" },
        p(null, strong(null, "Copy it now: it is shown only once."), " Farebox stores only its SHA-256."),
        div(
          { class: "secret" },
          pre({ tabIndex: 0, "aria-label": "The key" }, code(null, key)),
          h(CopyButton, { text: key, label: "the key" }),
        ),
        until !== undefined &&
          until !== null &&
          p({ class: "hint" }, `The previous secret is valid until ${instant(until, "moment")}.`),
        details(null, summary(null, "Try it in a terminal"), snippet(firstRequest(key), "the request")),
        footer({ class: "dialog-foot" }, button({ type: "button", class: "button primary", onClick: close }, "Done")),
      ),
  });
}
