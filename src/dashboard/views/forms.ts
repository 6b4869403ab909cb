import { h } from "preact";
import { div, footer, form, input, label, option, p, select, small, span } from "../dom.ts";
import type { Attributes, Children, View } from "../dom.ts";
import { useAction } from "../resource.ts";
import { say } from "../toasts.ts";
import type { Limits } from "../types.ts";
import { actionButton, Dialog, failure, suggestions } from "../ui.ts";

/** Names that a dialog suggests, and actions of its view. */
export interface DialogDeps {
  readonly keys: readonly string[];
  readonly teams: readonly string[];
  /** Replaces this dialog by another one. */
  readonly show: (next: OpenDialog) => void;
  readonly onClosed: () => void;
  readonly onDone: () => void;
}

export type OpenDialog = (deps: DialogDeps) => View;

interface FieldProps {
  readonly hint?: string;
  /** Names that the browser suggests. */
  readonly known?: readonly string[];
}

/** Shows an input with a label above it and a hint below it. */
export function field(name: string, { hint, known, ...attributes }: Attributes<"input"> & FieldProps): View {
  const list = known === undefined ? {} : { list: `known-${String(attributes.name)}` };
  const plain = attributes.type === "number" ? {} : { autoComplete: "off" as const, spellcheck: false };
  return labelled(name, [
    input({ ...plain, ...list, ...attributes } as Attributes<"input">),
    known !== undefined && suggestions(`known-${String(attributes.name)}`, known),
    hint !== undefined && small({ class: "hint" }, hint),
  ]);
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

/** Reads an optional number. A text that is not a number becomes NaN, which the server refuses. */
export function numberOf(form: FormData, name: string): number | null {
  const text = textOf(form, name);
  return text === "" ? null : Number(text);
}

/** Splits names at commas and spaces. Returns null if there are none. */
function listOf(form: FormData, name: string): string[] | null {
  const names = textOf(form, name)
    .split(/[\s,]+/)
    .filter((each) => each !== "");
  return names.length === 0 ? null : names;
}

/** Shows the field for the name of a new key or team. */
export function nameField(placeholder: string): View {
  const title = "Lowercase letters, digits, dots, dashes and underscores";
  const pattern = "[a-z0-9][a-z0-9._\\-]*";
  return field("Name", { name: "name", required: true, maxLength: 63, pattern, title, placeholder });
}

/** Models and limits of a key or team. */
export interface Bounds {
  readonly models: readonly string[] | null;
  readonly limits: Limits;
  readonly output_cap: number | null;
}

export const noBounds: Bounds = { models: null, limits: { rpm: null, tpm: null, parallel: null }, output_cap: null };

/** Shows the fields for models and limits. */
export function boundFields({ models, limits, output_cap: cap }: Bounds): View[] {
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
      hint: "Most output tokens of a request; written into requests without a maximum.",
    }),
  ];
}

/** Reads the values of `boundFields`. */
export function boundsOf(form: FormData): Bounds {
  return {
    models: listOf(form, "models"),
    limits: { rpm: numberOf(form, "rpm"), tpm: numberOf(form, "tpm"), parallel: numberOf(form, "parallel") },
    output_cap: numberOf(form, "output_cap"),
  };
}

interface FormProps {
  readonly title: string;
  /** Label of the button that saves. */
  readonly verb: string;
  readonly danger?: boolean;
  readonly fields: Children;
  /**
   * Saves the form. Throws a Fault on failure. Returns the confirmation to show after the dialog closes; null if another dialog
   * follows.
   */
  readonly save: (form: FormData) => Promise<string | null>;
  readonly onClosed: () => void;
  readonly onDone: () => void;
}

export function FormDialog({ title, onClosed, ...rest }: FormProps): View {
  return h(Dialog, { title, onClosed, body: (close) => h(DialogForm, { ...rest, close }) });
}

type DialogFormProps = Omit<FormProps, "title" | "onClosed"> & { readonly close: () => void };

function DialogForm({ verb, danger, fields, save, onDone, close }: DialogFormProps): View {
  const { busy, fault, run } = useAction();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    await run(async () => {
      const done = await save(given);
      onDone();
      if (done === null) return;
      say(done);
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
      actionButton(undefined, busy ? "One moment…" : verb, { type: "submit", class: kind, disabled: busy }),
    ),
  );
}

/** Shows a dialog that asks the user to confirm an action that cannot be undone. */
export function confirmation(text: Children, props: Omit<FormProps, "fields" | "danger">): View {
  return h(FormDialog, { ...props, danger: true, fields: div({ class: "confirm" }, p(null, text)) });
}
