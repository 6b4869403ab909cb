import { h } from "preact";
import { useState } from "preact/hooks";
import { div, footer, form, input, label, option, p, select, small, span } from "../dom.ts";
import type { Attributes, Children, View } from "../dom.ts";
import { icon } from "../icons.ts";
import { SuggestedNames, useSettled } from "../list.ts";
import { useAction } from "../resource.ts";
import { showToast } from "../toasts.ts";
import type { Limits } from "../types.ts";
import { actionButton, Dialog, failure } from "../ui.ts";

/** Form in a dialog. */
export interface Form {
  readonly title: string;
  /** Label of the button that saves. */
  readonly verb: string;
  readonly danger?: boolean;
  readonly fields: Children;
  /** Saves the form. Throws a Fault on failure. */
  readonly save: (form: FormData) => Promise<unknown>;
  /** Message that confirms the change; absent if `save` shows one. */
  readonly done?: string | ((form: FormData) => string);
  /** Runs after the form is saved, instead of the `onDone` of `useDialogs`. */
  readonly onDone?: () => void;
}

/** Opens a form. Replaces the form that is open. */
export type Show = (form: Form) => void;

/**
 * Returns the function that opens a form, and the dialog with the open form; null if none is open. `onDone` runs after
 * a form is saved, unless the form has its own `onDone`.
 */
export function useDialogs(onDone: () => void): { readonly show: Show; readonly dialog: View | null } {
  const [opened, show] = useState<Form | null>(null);
  const body = (close: () => void) => opened && h(DialogForm, { onDone, ...opened, close });
  return { show, dialog: opened && h(Dialog, { title: opened.title, onClosed: () => show(null), body }) };
}

/** Shows a button that adds something. */
export function addButton(text: string, onClick: () => void, name = "button"): View {
  return actionButton(onClick, [icon("plus"), text], { class: name });
}

/** Lifetimes of a key or token, and their labels. */
export const lifetimes = [
  ["", "Never"],
  ["1d", "In 1 day"],
  ["7d", "In 7 days"],
  ["30d", "In 30 days"],
  ["90d", "In 90 days"],
  ["365d", "In 1 year"],
] as const;

interface FieldProps {
  readonly hint?: string;
  /** Returns the list of names that the browser suggests, with the given id. */
  readonly suggestions?: (id: string) => View;
}

/** Shows an input with a label above it and a hint below it. */
export function field(name: string, { hint, suggestions, ...attributes }: Attributes<"input"> & FieldProps): View {
  const id = `known-${String(attributes.name)}`;
  const list = suggestions === undefined ? {} : { list: id };
  const plain = attributes.type === "number" ? {} : { autoComplete: "off" as const, spellcheck: false };
  return labelled(name, [
    input({ ...plain, ...list, ...attributes } as Attributes<"input">),
    suggestions?.(id),
    hint !== undefined && small({ class: "hint" }, hint),
  ]);
}

const suggestedMax = 10;

type KeyOrTeamProps = Attributes<"input"> & FieldProps & { readonly title: string; readonly of: "keys" | "teams" };

/** Shows a field for the name of a key or team. The server suggests names that contain the typed text. */
export function KeyOrTeamField({ title, of, ...attributes }: KeyOrTeamProps): View {
  const [typed, setTyped] = useState("");
  const query = { q: useSettled(typed.trim()), state: of === "keys" ? "live" : null, limit: suggestedMax };
  return field(title, {
    ...attributes,
    suggestions: (id) => h(SuggestedNames, { id, list: of, query }),
    onInput: (event) => setTyped(event.currentTarget.value),
  });
}

interface ChoiceProps {
  /** Values and their labels. */
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly chosen?: string | undefined;
}

/** Shows a list of options with a label above it. One option is selected. */
export function choice(name: string, { options, chosen, ...attributes }: Attributes<"select"> & ChoiceProps): View {
  return labelled(
    name,
    select(
      attributes,
      options.map(([value, text]) =>
        option({ key: value, value, ...(chosen !== undefined && { selected: value === chosen }) }, text),
      ),
    ),
  );
}

function labelled(name: string, control: Children): View {
  return label({ class: "field", key: name }, span(null, name), control);
}

export function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value.trim() : "";
}

/** Reads a number; null if the field is empty. Text that is not a number becomes NaN, which the server refuses. */
export function numberOf(form: FormData, name: string): number | null {
  const text = textOf(form, name);
  return text === "" ? null : Number(text);
}

/**
 * Returns the change from the `before` values to the values in a field, such as "env=prod, team=search". Null removes a
 * value.
 */
export function pairsChange(
  form: FormData,
  name: string,
  before: Readonly<Record<string, string>>,
): Record<string, string | null> {
  const removed = Object.keys(before).map((each): [string, null] => [each, null]);
  const given = (textOf(form, name) || null)?.split(",").map((pair): [string, string] => {
    const [each = "", ...value] = pair.split("=");
    return [each.trim(), value.join("=").trim()];
  });
  return Object.fromEntries([...removed, ...(given ?? [])]);
}

/** Shows the field for an amount in USD. */
export function usdField(
  title: string,
  { name, ...attributes }: Attributes<"input"> & { readonly name: string },
): View {
  return field(title, {
    name,
    class: "num",
    inputMode: "decimal",
    required: true,
    pattern: "[0-9]{1,7}([.][0-9]{1,12})?",
    title: "An amount such as 5 or 2.50",
    ...attributes,
  });
}

/** Reads names that are separated by commas or spaces. Returns null if the field has no names. */
export function listOf(form: FormData, name: string): string[] | null {
  const names = textOf(form, name)
    .split(/[\s,]+/)
    .filter((each) => each !== "");
  return names.length === 0 ? null : names;
}

/** Shows the field for the name of a new key, team or admin. */
export function nameField(placeholder: string): View {
  const title = "Lowercase letters, digits, dots, dashes and underscores; starts with a letter or digit";
  const pattern = "[a-z0-9][a-z0-9._\\-]*";
  return field("Name", { name: "name", required: true, maxLength: 63, pattern, title, placeholder });
}

/** Models, limits, output cap and policy for hosted tools of a key or team. */
export interface Restrictions {
  readonly models: readonly string[] | null;
  readonly limits: Limits;
  readonly output_cap: number | null;
  readonly hosted_tools: keyof typeof toolPolicies | null;
}

/** Policies for hosted tools that nothing bounds, with their names. */
export const toolPolicies = { refuse: "Refused", remove: "Removed", allow: "Allowed" } as const;

export const noRestrictions: Restrictions = {
  models: null,
  limits: { rpm: null, tpm: null, parallel: null },
  output_cap: null,
  hosted_tools: null,
};

/** Shows the fields for models, limits, the output cap and hosted tools. */
export function restrictionFields({ models, limits, output_cap: cap, hosted_tools: policy }: Restrictions): View[] {
  const number = (name: string, value: number | null) =>
    ({
      name,
      class: "num",
      type: "number",
      min: 1,
      step: 1,
      placeholder: "no limit",
      defaultValue: value ?? "",
    }) as const;
  return [
    field("Models", {
      name: "models",
      placeholder: "all",
      defaultValue: models?.join(", ") ?? "",
      hint: "Patterns such as gpt-4o*, separated by commas.",
    }),
    div(
      { class: "field-row three", key: "limits" },
      field("Requests per minute", number("rpm", limits.rpm)),
      field("Tokens per minute", number("tpm", limits.tpm)),
      field("Parallel requests", number("parallel", limits.parallel)),
    ),
    field("Output cap", {
      ...number("output_cap", cap),
      hint: "Largest number of output tokens of a request; written into requests without a maximum.",
    }),
    choice("Hosted tools without a bound", {
      name: "hosted_tools",
      options: [["", "Inherited"], ...Object.entries(toolPolicies)],
      chosen: policy ?? "",
    }),
  ];
}

/** Reads the values of `restrictionFields`. */
export function restrictionsOf(form: FormData): Restrictions {
  return {
    models: listOf(form, "models"),
    limits: { rpm: numberOf(form, "rpm"), tpm: numberOf(form, "tpm"), parallel: numberOf(form, "parallel") },
    output_cap: numberOf(form, "output_cap"),
    hosted_tools: (textOf(form, "hosted_tools") || null) as Restrictions["hosted_tools"],
  };
}

type DialogFormProps = Form & { readonly onDone: () => void; readonly close: () => void };

function DialogForm({ verb, danger, fields, save, done, onDone, close }: DialogFormProps): View {
  const { busy, fault, run } = useAction();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    await run(async () => {
      await save(given);
      onDone();
      if (done !== undefined) showToast(typeof done === "string" ? done : done(given));
      close();
    });
  };
  const kind = danger === true ? "button danger" : "button primary";
  return form(
    { class: "form", onSubmit: (event: SubmitEvent) => void submit(event) },
    fields,
    fault !== null && failure(fault),
    footer(
      { class: "dialog-foot" },
      actionButton(close, "Cancel"),
      actionButton(undefined, busy ? "Saving…" : verb, { type: "submit", class: kind, disabled: busy }),
    ),
  );
}

/** Returns a form without fields that asks the user to confirm an action. */
export function confirmation(text: Children, form: Pick<Form, "title" | "verb" | "save" | "done" | "onDone">): Form {
  return { ...form, danger: true, fields: div({ class: "confirm" }, p(null, text)) };
}
