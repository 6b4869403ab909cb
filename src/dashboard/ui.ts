import { h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Fault } from "./api.ts";
import {
  a,
  button,
  classes,
  code,
  data,
  datalist,
  dd,
  dialog,
  div,
  dl,
  dt,
  h1,
  h2,
  header,
  input,
  label,
  option,
  p,
  pre,
  section,
  select,
  span,
  strong,
  time,
  type Attributes,
  type Children,
  type View,
} from "./dom.ts";
import { ago, count, exactMoney, instant, money, percent, shareOf, shortCount, type TimeStyle } from "./format.ts";
import { icon, type IconName } from "./icons.ts";
import { enterDialog, follow } from "./location.ts";
import type { Resource } from "./resource.ts";
import type { Iso, RankedStandingJson, StandingJson, Usd } from "./types.ts";

/** Shows text that matters less than the text next to it. */
export function muted(...text: Children[]): View {
  return span({ class: "muted" }, ...text);
}

/** Shows an amount, rounded unless `exact`. Its value and title are always exact. */
export function amount(usd: Usd | null, { exact = false }: { readonly exact?: boolean } = {}): View {
  if (usd === null) return muted(span({ "aria-hidden": "true" }, "–"), span({ class: "unseen" }, "unknown"));
  return data({ class: "num", value: usd, title: exactMoney(usd) }, exact ? exactMoney(usd) : money(usd));
}

export function moment(iso: Iso, text: string): View {
  return time({ dateTime: iso, title: instant(iso, "full") }, text);
}

/** Shows a time relative to now, with the exact time as its title. Shows "never" for null. */
export function timeAgo(iso: Iso | null): View {
  return iso === null ? muted("never") : moment(iso, ago(iso));
}

export function instantOf(iso: Iso, style: TimeStyle): View {
  return moment(iso, instant(iso, style));
}

export function link(address: string, text: Children, name?: string): View {
  return a({ href: address, class: name ?? "link", onClick: follow }, text);
}

interface CardProps {
  readonly title: Children;
  readonly hint?: Children;
  readonly actions?: Children;
  readonly class?: string;
  readonly children?: Children;
}

/** Shows a section of a view with a heading. */
export function Card({ title, hint, actions, class: name, children }: CardProps): View {
  return section(
    { class: classes("card", name) },
    header(
      { class: "card-head" },
      div({ class: "card-title" }, h2(null, title), hint !== undefined && p({ class: "hint" }, hint)),
      actions !== undefined && div({ class: "actions" }, actions),
    ),
    children,
  );
}

interface Choice<T extends string> {
  readonly label: string;
  readonly options: readonly { readonly value: T; readonly text: string }[];
  readonly value: T;
  readonly onChoose: (value: T) => void;
}

/** Shows a group of buttons, one of which is selected. */
export function segmented<T extends string>({ label, options, value, onChoose }: Choice<T>): View {
  return div(
    { class: "segmented", role: "group", "aria-label": label },
    options.map((each) =>
      button(
        { type: "button", key: each.value, "aria-pressed": each.value === value, onClick: () => onChoose(each.value) },
        each.text,
      ),
    ),
  );
}

export type Tone = "good" | "warn" | "bad" | "calm" | "accent";

export function badge(tone: Tone, text: Children, title?: string): View {
  return span({ class: `badge ${tone}`, ...(title !== undefined && { title }) }, text);
}

type BarBudget = Pick<StandingJson, "scope" | "mode" | "limit_usd" | "spent_usd" | "held_usd"> &
  Partial<Pick<RankedStandingJson, "warn_percent" | "refusing">>;

/** Used percentage at which a budget's bar changes its color if the budget has no warning threshold. */
const nearlyFull = 80;

/** Shows a budget as a bar: the amount spent, the amount held for requests in flight, and the warning threshold. */
export function budgetBar(budget: BarBudget): View {
  const {
    spent_usd: spent,
    held_usd: held,
    limit_usd: limit,
    warn_percent: warn = null,
    mode,
    scope,
    refusing,
  } = budget;
  const spentShare = shareOf(spent, limit);
  const heldShare = shareOf(held, limit);
  const all = spentShare + heldShare;
  const isOut = refusing === true || (all >= 1 && mode === "hard");
  const tone = isOut ? "bad" : all >= (warn ?? nearlyFull) / 100 ? "warn" : "good";
  const text = `${percent(all)} of ${money(limit)}: ${money(spent)} spent, ${money(held)} held`;
  return div(
    {
      class: classes("meter", tone, mode),
      role: "meter",
      "aria-label": `Budget ${scope}`,
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-valuenow": Math.min(Math.round(all * 100), 100),
      "aria-valuetext": text,
    },
    span({ class: "spent", style: { width: `${Math.min(spentShare, 1) * 100}%` } }),
    span({ class: "held", style: { width: `${Math.min(heldShare, Math.max(1 - spentShare, 0)) * 100}%` } }),
    warn !== null && span({ class: "warn-mark", style: { left: `${warn}%` } }),
  );
}

/** Shows a share as a bar next to a name in a list. */
export function shareBar(share: number): View {
  return div({ class: "share", "aria-hidden": "true" }, span({ style: { width: `${Math.min(share, 1) * 100}%` } }));
}

export function failure(fault: Fault, retry?: () => void): View {
  return div(
    { class: "failure", role: "alert" },
    icon("warning"),
    p(null, fault.message),
    retry !== undefined && actionButton(retry, "Try again", { class: "button small" }),
  );
}

/** Explains an empty list. */
export function empty(title: string, ...text: Children[]): View {
  return div({ class: "empty" }, strong(null, title), p({ class: "hint" }, ...text));
}

/** Shows placeholder lines while data loads. */
export function waiting(lines: number): View {
  return div(
    { class: "waiting", "aria-busy": "true" },
    span({ class: "unseen" }, "Loading"),
    Array.from({ length: lines }, (_, index) => span({ key: index, class: "bone", "aria-hidden": "true" })),
  );
}

/** Shows the data once it is loaded. Until then shows placeholder lines, or the fault if loading failed. */
export function loaded<T>(
  { data, fault, reload }: Resource<T>,
  lines: number,
  content: (data: T) => Children,
): Children {
  if (data !== null) return content(data);
  return fault === null ? waiting(lines) : failure(fault, reload);
}

interface HeadProps {
  readonly title: string;
  readonly hint?: string;
  /** Link to the list that the page belongs to. */
  readonly back?: Children;
  /** Content next to the title. */
  readonly side?: Children;
}

/** Shows a view with its title. */
export function view({ title, hint, back, side }: HeadProps, ...content: Children[]): View {
  return div(
    { class: "view" },
    header(
      { class: "view-head" },
      div(
        null,
        back !== undefined && div({ class: "back" }, back),
        h1(null, title),
        hint !== undefined && p({ class: "hint" }, hint),
      ),
      side,
    ),
    content,
  );
}

interface PageProps<T> extends HeadProps {
  /** Content between the title and the data. */
  readonly tools?: Children;
  readonly resource: Resource<T>;
  readonly lines: number;
  readonly content: (data: T) => Children;
}

/**
 * Shows a view with its data. `after` is content below the data, such as dialogs. If a reload fails, shows the failure
 * above the last data.
 */
export function page<T>({ tools, resource, lines, content, ...head }: PageProps<T>, after?: Children): View {
  const { data, fault, reload } = resource;
  return view(
    head,
    tools,
    data !== null && fault !== null && failure(fault, reload),
    loaded(resource, lines, content),
    after,
  );
}

interface CopyProps {
  readonly text: string;
  /** Name of the text in sentences, such as "the key". */
  readonly label: string;
  readonly onCopied?: () => void;
}

export function CopyButton({ text, label: what, onCopied }: CopyProps): View {
  const [copied, setCopied] = useState<"yes" | "no" | null>(null);
  const copy = async () => {
    const done = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    setCopied(done ? "yes" : "no");
    if (done) onCopied?.();
  };
  return actionButton(
    () => void copy(),
    [
      icon(copied === "yes" ? "done" : "copy"),
      copied === "yes" ? "Copied" : copied === "no" ? "Select and copy it" : "Copy",
    ],
    { class: "button small", "aria-label": copied === "yes" ? `${what} copied` : `Copy ${what}` },
  );
}

/** Shows text for a terminal, with a copy button. */
export function snippet(text: string, what: string): View {
  return div({ class: "snippet" }, pre({ tabIndex: 0 }, code(null, text)), h(CopyButton, { text, label: what }));
}

interface DialogProps {
  readonly title: string;
  /** A parameter of the address opens a drawer (see `openDrawer`). A box, the default, adds an entry to the history. */
  readonly kind?: "drawer" | "box";
  readonly onClosed: () => void;
  /** Returns the content of the dialog. Receives the function that closes the dialog. */
  readonly body: (close: () => void) => Children;
}

/**
 * Shows a native dialog of the browser. The dialog keeps the focus inside, restores it afterwards, and closes with
 * Escape and with Back.
 */
export function Dialog({ title, kind = "box", onClosed, body }: DialogProps): View {
  const element = useRef<HTMLDialogElement>(null);
  const isShown = useRef(true);
  const close = () => element.current?.close();
  useEffect(() => {
    const shown = element.current;
    const opener = document.activeElement;
    shown?.showModal();
    // Without this line, the browser would focus the button that closes the dialog.
    shown?.querySelector<HTMLElement>(".form :is(input, select)")?.focus();
    const leave = kind === "box" ? enterDialog(close) : () => {};
    return () => {
      isShown.current = false;
      leave();
      // The browser restores the focus when a dialog is closed, but not when it is removed.
      if (shown?.open === true && opener instanceof HTMLElement) opener.focus();
    };
  }, [kind]);
  return dialog(
    {
      ref: element,
      class: kind,
      "aria-label": title,
      onClose: () => isShown.current && onClosed(),
      onMouseDown: (event) => event.target === element.current && close(),
    },
    div(
      { class: "dialog-body" },
      header({ class: "dialog-head" }, h2(null, title), iconButton("close", "Close", close)),
      body(close),
    ),
  );
}

export function actionButton(
  onClick: (() => void) | undefined,
  content: Children,
  attributes: Attributes<"button"> = {},
): View {
  return button({ type: "button", class: "button", ...(onClick !== undefined && { onClick }), ...attributes }, content);
}

export function iconButton(name: IconName, what: string, onClick: () => void): View {
  return actionButton(onClick, icon(name), { class: "button icon-only", "aria-label": what, title: what });
}

interface SelectProps {
  readonly name: string;
  readonly value: string;
  /** Values and their labels. */
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly onChoose: (value: string) => void;
}

/** Shows a list of options. Only screen readers read its name. */
export function selectBox({ name, value, options, onChoose }: SelectProps): View {
  return label(
    { class: "filter", key: name },
    span({ class: "unseen" }, name),
    select(
      { value, onChange: (event) => onChoose(event.currentTarget.value) },
      options.map(([each, text]) => option({ key: each, value: each, selected: each === value }, text)),
    ),
  );
}

/** Shows a search field. Its placeholder is its name. */
export function searchInput(name: string, value: string, onText: (text: string) => void): View {
  return label(
    { class: "filter" },
    span({ class: "unseen" }, name),
    icon("search"),
    input({
      type: "search",
      placeholder: name,
      value,
      maxLength: 100,
      onInput: (event) => onText(event.currentTarget.value),
    }),
  );
}

/** Shows names with their values. Leaves out values that are missing. */
export function factsOf(facts: Readonly<Record<string, Children>>): View {
  const isGiven = (value: Children) =>
    Array.isArray(value) ? value.length > 0 : (value ?? "") !== "" && value !== false;
  return dl(
    { class: "details" },
    Object.entries(facts)
      .filter(([, value]) => isGiven(value))
      .map(([name, value]) => div({ key: name }, dt(null, name), dd(null, value))),
  );
}

/** Returns the list of names that the browser suggests for the input whose `list` attribute is `id`. */
export function suggestions(id: string, names: readonly string[]): View {
  return datalist(
    { id },
    names.map((value) => option({ key: value, value })),
  );
}

interface TileProps {
  readonly name: string;
  readonly figure: Children;
  readonly note: Children;
  /** Color of the dot next to the name; null for no dot. */
  readonly tone?: Tone | null;
}

/** Shows one figure of a summary. */
export function tile({ name, figure, note, tone = null }: TileProps): View {
  return div(
    { class: "tile" },
    span({ class: "tile-name" }, tone !== null && span({ class: `dot ${tone}`, "aria-hidden": "true" }), name),
    span({ class: "figure" }, figure),
    div({ class: "note" }, note),
  );
}

/** Shows one figure in a row of figures. */
export function headline(name: string, figure: Children): View {
  return div({ class: "headline", key: name }, muted(name), strong(null, figure));
}

/** Shows an abbreviated number of requests in a row of figures. */
export function requestsHeadline(requests: number): View {
  return headline("Requests", span({ class: "num", title: count(requests) }, shortCount(requests)));
}
