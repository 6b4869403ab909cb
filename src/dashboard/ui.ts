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
  dialog,
  div,
  h1,
  h2,
  header,
  input,
  label,
  option,
  p,
  pre,
  section,
  span,
  strong,
  time,
  type Attributes,
  type Children,
  type View,
} from "./dom.ts";
import { exactMoney, instant, money, percent, shareOf, type TimeStyle } from "./format.ts";
import { icon, type IconName } from "./icons.ts";
import { follow } from "./location.ts";
import type { Resource } from "./resource.ts";
import type { Iso, Standing, Usd } from "./types.ts";

/** Shows an amount, rounded unless `exact`. Its value and title are always exact. */
export function amount(usd: Usd | null, { exact = false }: { readonly exact?: boolean } = {}): View {
  if (usd === null)
    return span({ class: "muted" }, span({ "aria-hidden": "true" }, "–"), span({ class: "unseen" }, "unknown"));
  return data({ class: "num", value: usd, title: exactMoney(usd) }, exact ? exactMoney(usd) : money(usd));
}

export function moment(iso: Iso, text: string): View {
  return time({ dateTime: iso, title: instant(iso, "full") }, text);
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

/** Shows a budget as a bar: the amount spent, the amount held for requests in flight, and the warning threshold. */
export function budgetBar({
  spent_usd: spent,
  held_usd: held,
  limit_usd: limit,
  warn_percent: warn,
  mode,
  scope,
}: Standing): View {
  const spentShare = shareOf(spent, limit);
  const heldShare = shareOf(held, limit);
  const all = spentShare + heldShare;
  const tone = all >= 1 ? "bad" : warn !== null && all >= warn / 100 ? "warn" : "good";
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
export function shareBar(share: number, series?: number): View {
  return div(
    { class: "share", "aria-hidden": "true" },
    span({ class: series === undefined ? "" : `series-${series}`, style: { width: `${Math.min(share, 1) * 100}%` } }),
  );
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

interface PageProps<T> {
  readonly title: string;
  readonly hint?: string;
  /** Content next to the title. */
  readonly side?: Children;
  /** Content between the title and the data. */
  readonly tools?: Children;
  readonly resource: Resource<T>;
  readonly lines: number;
  readonly content: (data: T) => Children;
}

/** Shows a view with its title and data; `after` is for dialogs. If a reload fails, shows the failure above the last data. */
export function page<T>({ title, hint, side, tools, resource, lines, content }: PageProps<T>, after?: Children): View {
  const { data, fault, reload } = resource;
  return div(
    { class: "view" },
    header(
      { class: "view-head" },
      hint === undefined ? h1(null, title) : div(null, h1(null, title), p({ class: "hint" }, hint)),
      side,
    ),
    tools,
    data !== null && fault !== null && failure(fault, reload),
    loaded(resource, lines, content),
    after,
  );
}

export function CopyButton({ text, label: what }: { readonly text: string; readonly label: string }): View {
  const [copied, setCopied] = useState<"yes" | "no" | null>(null);
  const copy = async () => {
    const done = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
    setCopied(done ? "yes" : "no");
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
  readonly kind?: "drawer" | "box";
  readonly onClosed: () => void;
  /** Receives the function that closes the dialog. */
  readonly body: (close: () => void) => Children;
}

/** Shows the browser's own dialog. It holds the focus, restores it afterwards, and closes with Escape. */
export function Dialog({ title, kind = "box", onClosed, body }: DialogProps): View {
  const place = useRef<HTMLDialogElement>(null);
  useEffect(() => place.current?.showModal(), []);
  const close = () => place.current?.close();
  return dialog(
    {
      ref: place,
      class: kind,
      "aria-label": title,
      onClose: onClosed,
      onMouseDown: (event) => event.target === place.current && close(),
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

/** Shows a search field whose placeholder is its name. The browser suggests the `known` names. */
export function searchBox(
  name: string,
  value: string,
  onText: (text: string) => void,
  known?: readonly string[],
): View {
  const list = `known-${name.toLowerCase()}`;
  return label(
    { class: "filter" },
    span({ class: "unseen" }, name),
    icon("search"),
    input({
      type: "search",
      placeholder: name,
      value,
      onInput: (event) => onText(event.currentTarget.value),
      ...(known !== undefined && { list, autoComplete: "off", spellcheck: false }),
    }),
    known !== undefined && suggestions(list, known),
  );
}

/** Lists the names that the browser suggests for an input whose `list` is this id. */
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
  /** Colour of the dot next to the name; null for no dot. */
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
