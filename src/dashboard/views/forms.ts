import { h } from "preact";
import { button, div, footer, form, input, label, p, small, span, type Children, type View } from "../dom.ts";
import { useAction } from "../resource.ts";
import type { Limits } from "../types.ts";
import { Dialog, failure } from "../ui.ts";

/** Shows a control with its label above and a hint below. */
export function field(name: string, control: Children, hint?: string): View {
  return label(
    { class: "field", key: name },
    span(null, name),
    control,
    hint !== undefined && small({ class: "hint" }, hint),
  );
}

export function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value.trim() : "";
}

/** Reads an optional number. The server refuses a value that is not a number. */
function numberOf(form: FormData, name: string): number | null {
  const text = textOf(form, name);
  return text === "" ? null : Number(text);
}

/** Splits names at commas or spaces; null without any. */
function listOf(form: FormData, name: string): string[] | null {
  const names = textOf(form, name)
    .split(/[\s,]+/)
    .filter((each) => each !== "");
  return names.length === 0 ? null : names;
}

const nameShape = "[a-z0-9][a-z0-9._\\-]*";

/** Field for the name of a new key or team. */
export function nameField(example: string): View {
  const shape = "Lowercase letters, digits, dots, dashes and underscores";
  return field(
    "Name",
    input({
      name: "name",
      required: true,
      maxLength: 63,
      pattern: nameShape,
      title: shape,
      autoComplete: "off",
      spellcheck: false,
      placeholder: example,
    }),
  );
}

/** Models and limits of a key or team. */
export interface Bounds {
  readonly models: readonly string[] | null;
  readonly limits: Limits;
  readonly output_cap: number | null;
}

export const noBounds: Bounds = { models: null, limits: { rpm: null, tpm: null, parallel: null }, output_cap: null };

/** Fields for models and limits. */
export function boundFields({ models, limits, output_cap: cap }: Bounds): View[] {
  const number = (name: keyof Limits | "output_cap", what: string, value: number | null, hint?: string) =>
    field(
      what,
      input({
        name,
        class: "num",
        type: "number",
        min: 1,
        step: 1,
        placeholder: "no limit",
        defaultValue: String(value ?? ""),
      }),
      hint,
    );
  return [
    field(
      "Models",
      input({
        name: "models",
        autoComplete: "off",
        spellcheck: false,
        placeholder: "all",
        defaultValue: models?.join(", ") ?? "",
      }),
      "Patterns such as gpt-4o*, separated by commas.",
    ),
    div(
      { class: "field-row three", key: "limits" },
      number("rpm", "Requests per minute", limits.rpm),
      number("tpm", "Tokens per minute", limits.tpm),
      number("parallel", "Parallel requests", limits.parallel),
    ),
    number(
      "output_cap",
      "Output cap",
      cap,
      "Most output tokens of a request; written into requests without a maximum.",
    ),
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
  /** Throws a Fault on failure; otherwise the dialog closes, unless `stays`. */
  readonly save: (form: FormData) => Promise<void>;
  readonly stays?: boolean;
  readonly onClosed: () => void;
}

export function FormDialog({ title, onClosed, ...rest }: FormProps): View {
  return h(Dialog, { title, onClosed, body: (close) => h(DialogForm, { ...rest, close }) });
}

function DialogForm({
  verb,
  danger,
  fields,
  save,
  stays,
  close,
}: Omit<FormProps, "title" | "onClosed"> & { readonly close: () => void }): View {
  const { busy, fault, run } = useAction();
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    if ((await run(() => save(given))) && stays !== true) close();
  };
  return form(
    { class: "form", onSubmit: (event: SubmitEvent) => void submit(event) },
    fields,
    fault !== null && failure({ fault }),
    footer(
      { class: "dialog-foot" },
      button({ type: "button", class: "button", onClick: close }, "Cancel"),
      button(
        { type: "submit", class: danger === true ? "button danger" : "button primary", disabled: busy },
        busy ? "One moment…" : verb,
      ),
    ),
  );
}

interface ConfirmationProps {
  readonly title: string;
  readonly text: Children;
  readonly verb: string;
  readonly danger?: boolean;
  readonly work: () => Promise<void>;
  readonly onClosed: () => void;
}

/** Asks for confirmation of something that cannot be undone. */
export function confirmation({ text, work, ...rest }: ConfirmationProps): View {
  return h(FormDialog, { ...rest, fields: div({ class: "confirm" }, p(null, text)), save: work });
}
