import { h } from "preact";
import { button, div, footer, form, input, label, p, small, span, type Children, type View } from "../dom.ts";
import { useAction } from "../resource.ts";
import type { Limits } from "../types.ts";
import { Dialog, failure } from "../ui.ts";

/** A control with its name above, and under it what to know. */
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

/** A whole number that may be left out; what is none is for the server to refuse. */
function numberOf(form: FormData, name: string): number | null {
  const text = textOf(form, name);
  return text === "" ? null : Number(text);
}

/** Names separated by commas or spaces; null where none is given. */
function listOf(form: FormData, name: string): string[] | null {
  const names = textOf(form, name)
    .split(/[\s,]+/)
    .filter((each) => each !== "");
  return names.length === 0 ? null : names;
}

const nameShape = "[a-z0-9][a-z0-9._\\-]*";

/** The name of something new. */
export function nameField(example: string): View {
  const shape = "Small letters, digits, dots, dashes and underscores";
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

/** What a key or a team may ask for. */
export interface Bounds {
  readonly models: readonly string[] | null;
  readonly limits: Limits;
  readonly output_cap: number | null;
}

/** Those of a new key or team. */
export const noBounds: Bounds = { models: null, limits: { rpm: null, tpm: null, parallel: null }, output_cap: null };

/** Which models, how many requests and tokens a minute, how many at once. */
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
      number("rpm", "Requests a minute", limits.rpm),
      number("tpm", "Tokens a minute", limits.tpm),
      number("parallel", "At once", limits.parallel),
    ),
    number("output_cap", "Output cap", cap, "Output tokens of a request; written into those that state no maximum."),
  ];
}

/** What `boundFields` were filled with. */
export function boundsOf(form: FormData): Bounds {
  return {
    models: listOf(form, "models"),
    limits: { rpm: numberOf(form, "rpm"), tpm: numberOf(form, "tpm"), parallel: numberOf(form, "parallel") },
    output_cap: numberOf(form, "output_cap"),
  };
}

interface FormProps {
  readonly title: string;
  /** What the button that saves says. */
  readonly verb: string;
  readonly danger?: boolean;
  readonly fields: Children;
  /** Throws a Fault where it does not go well; otherwise the dialog closes, unless `stays`. */
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

/** Asks before something that cannot be undone. */
export function confirmation({ text, work, ...rest }: ConfirmationProps): View {
  return h(FormDialog, { ...rest, fields: div({ class: "confirm" }, p(null, text)), save: work });
}
