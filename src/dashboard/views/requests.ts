import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import { admin, own, type Parameters } from "../api.ts";
import {
  button,
  caption,
  classes,
  datalist,
  div,
  h1,
  header,
  input,
  label,
  option,
  p,
  select,
  span,
  table,
  tbody,
  td,
  th,
  thead,
  tr,
  type View,
} from "../dom.ts";
import { count, duration, when } from "../format.ts";
import { icon } from "../icons.ts";
import { setQuery, useRoute } from "../location.ts";
import { useVisit } from "../resource.ts";
import type { Charge } from "../types.ts";
import { amount, Card, empty, failure, moment, waiting } from "../ui.ts";
import { ChargeDrawer } from "./charge.ts";
import { useFeed, type Feed } from "./feed.ts";
import { doubtBadge, knownBadge } from "./words.ts";

const filterNames = ["key", "team", "model", "state"] as const;
type FilterName = (typeof filterNames)[number];

export function Requests(): View {
  const { who } = useVisit();
  const { query } = useRoute();
  const [live, setLive] = useState(true);
  const offered = filterNames.filter((name) => who.kind === "admin" || name === "model" || name === "state");
  const filter: Parameters = Object.fromEntries(offered.map((name) => [name, query.get(name)]));
  const feed = useFeed(who.kind === "admin" ? admin : own, filter, live);
  const opened = query.get("request");
  return div(
    { class: "view" },
    header({ class: "view-head" }, h1(null, "Requests"), liveSwitch(live, setLive, feed)),
    h(Filters, { offered, query, charges: feed.charges ?? [] }),
    feed.fault !== null && failure({ fault: feed.fault, retry: feed.retry }),
    listed(
      feed,
      Object.values(filter).some((value) => value !== null),
      who.kind === "admin",
    ),
    opened !== null && h(ChargeDrawer, { key: opened, id: opened, onClosed: () => setQuery({ request: null }) }),
  );
}

function liveSwitch(live: boolean, setLive: (on: boolean) => void, { fault }: Feed): View {
  const flows = live && fault === null;
  return button(
    {
      type: "button",
      class: classes("button live", flows && "on"),
      "aria-pressed": live,
      onClick: () => setLive(!live),
    },
    span({ class: "pulse", "aria-hidden": "true" }),
    live ? "Live" : "Paused",
  );
}

const fieldNames: Record<FilterName, string> = { key: "Key", team: "Team", model: "Model", state: "State" };
const typedMs = 350;

interface FilterProps {
  readonly offered: readonly FilterName[];
  readonly query: URLSearchParams;
  /** Source of the suggested names. */
  readonly charges: readonly Charge[];
}

function Filters({ offered, query, charges }: FilterProps): View {
  const any = offered.some((name) => query.get(name) !== null);
  return div(
    { class: "filters", role: "search", "aria-label": "Filters" },
    offered.map((name) =>
      name === "state"
        ? stateFilter(query.get("state"))
        : h(TextFilter, {
            key: name,
            name,
            value: query.get(name) ?? "",
            known: [...new Set(charges.map((charge) => charge[name]))],
          }),
    ),
    any &&
      button(
        {
          type: "button",
          class: "button small",
          onClick: () => setQuery(Object.fromEntries(filterNames.map((name) => [name, null]))),
        },
        icon("close"),
        "Clear",
      ),
  );
}

function stateFilter(value: string | null): View {
  return label(
    { class: "filter", key: "state" },
    span({ class: "unseen" }, "State"),
    select(
      { value: value ?? "", onChange: (event) => setQuery({ state: event.currentTarget.value }) },
      option({ value: "" }, "All states"),
      option({ value: "pending" }, "Pending"),
      option({ value: "posted" }, "Posted"),
      option({ value: "voided" }, "Voided"),
    ),
  );
}

/** Applies the filter when the user stops typing. */
function TextFilter({
  name,
  value,
  known,
}: {
  readonly name: Exclude<FilterName, "state">;
  readonly value: string;
  readonly known: readonly (string | null)[];
}): View {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text.trim() === value) return undefined;
    const timer = setTimeout(() => setQuery({ [name]: text.trim() }), typedMs);
    return () => clearTimeout(timer);
  }, [text, value, name]);
  return label(
    { class: "filter" },
    span({ class: "unseen" }, fieldNames[name]),
    icon("search"),
    input({
      type: "search",
      value: text,
      placeholder: fieldNames[name],
      autoComplete: "off",
      spellcheck: false,
      list: `known-${name}`,
      onInput: (event) => setText(event.currentTarget.value),
    }),
    datalist(
      { id: `known-${name}` },
      known
        .filter((each) => each !== null)
        .toSorted()
        .map((each) => option({ key: each, value: each })),
    ),
  );
}

function listed(feed: Feed, filtered: boolean, whole: boolean): View | null {
  const { charges } = feed;
  if (charges === null) return feed.fault === null ? waiting(8) : null;
  if (charges.length === 0) {
    return empty(
      filtered ? "No matching requests" : "No requests yet",
      p(
        { class: "hint" },
        filtered
          ? "Names must match exactly. New matching requests appear here automatically."
          : "They appear here as they arrive.",
      ),
    );
  }
  return h(
    Card,
    { title: span({ class: "unseen" }, "Newest requests"), class: "list-card" },
    table(
      { class: "requests" },
      caption({ class: "unseen" }, "Requests, newest first"),
      thead(
        null,
        tr(
          null,
          heading("Time"),
          whole && heading("Key"),
          heading("Model"),
          heading("Tokens", "right wide-only"),
          heading("Duration", "right wide-only"),
          heading("Source"),
          heading("Cost", "right"),
        ),
      ),
      tbody(
        null,
        charges.map((charge) => row(charge, whole)),
      ),
    ),
    feed.hasOlder &&
      div(
        { class: "more" },
        button(
          { type: "button", class: "button", disabled: feed.loadingOlder, onClick: feed.loadOlder },
          feed.loadingOlder ? "Loading…" : "Show older",
        ),
      ),
  );
}

function heading(text: string, name?: string): View {
  return th({ scope: "col", ...(name !== undefined && { class: name }) }, text);
}

function row(charge: Charge, whole: boolean): View {
  const open = () => setQuery({ request: charge.request_id });
  return tr(
    { key: charge.request_id, class: classes("openable", charge.state), onClick: open },
    td(
      { class: "time" },
      button(
        {
          type: "button",
          class: "row-button",
          "aria-label": `Request of ${when(charge.time)}, ${charge.model}`,
          onClick: (event) => {
            event.stopPropagation();
            open();
          },
        },
        moment(charge.time, when(charge.time)),
      ),
    ),
    whole &&
      td(
        { class: "key" },
        charge.key ?? span({ class: "muted" }, "no key"),
        charge.team !== null && span({ class: "muted" }, ` ${charge.team}`),
      ),
    td(
      { class: "model" },
      charge.model,
      charge.stream && span({ class: "tag" }, "stream"),
      ...Object.entries(charge.tags).map(([name, value]) => span({ key: name, class: "tag" }, `${name}: ${value}`)),
    ),
    td({ class: "right num wide-only" }, tokensOf(charge)),
    td({ class: "right num wide-only" }, charge.duration_ms === null ? "" : duration(charge.duration_ms)),
    td({ class: "known" }, knownBadge(charge), " ", doubtBadge(charge)),
    td({ class: "right cost" }, costOf(charge)),
  );
}

const prompt = new Set(["input", "cached_input", "cache_write", "cache_write_1h", "audio_input", "image_input"]);

function tokensOf({ tokens, state }: Charge): View | string {
  if (state !== "posted") return "";
  const all = Object.entries(tokens);
  const sum = (wanted: boolean) =>
    all.filter(([name]) => prompt.has(name) === wanted).reduce((total, [, number]) => total + number, 0);
  return span(
    { title: `${count(sum(true))} tokens in, ${count(sum(false))} out` },
    count(sum(true)),
    span({ class: "muted" }, " → "),
    count(sum(false)),
  );
}

/** Shows the cost; while the request is pending, its hold. */
function costOf({ state, cost_usd: cost, hold_usd: hold }: Charge): View | string {
  if (state === "voided") return span({ class: "muted" }, "–");
  if (state === "pending") return hold === null ? "" : span({ class: "muted", title: "Hold" }, "≤ ", amount(hold));
  return amount(cost);
}
