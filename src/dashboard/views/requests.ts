import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Parameters } from "../api.ts";
import { classes, div, label, option, select, span, type Children, type View } from "../dom.ts";
import { count, duration, when } from "../format.ts";
import { icon } from "../icons.ts";
import { setQuery, useRoute } from "../location.ts";
import { useSource, useVisit } from "../resource.ts";
import { dataTable, openButton } from "../table.ts";
import type { Charge } from "../types.ts";
import { actionButton, amount, Card, empty, moment, page, searchBox } from "../ui.ts";
import { ChargeDrawer } from "./charge.ts";
import { useFeed, type Feed } from "./feed.ts";
import { doubtBadge, knownBadge, tagsOf } from "./words.ts";

const filterNames = ["key", "team", "model", "state"] as const;
type FilterName = (typeof filterNames)[number];

export function Requests(): View {
  const { who } = useVisit();
  const { query } = useRoute();
  const [live, setLive] = useState(true);
  const whole = who.kind === "admin";
  const offered = filterNames.filter((name) => whole || name === "model" || name === "state");
  const filter: Parameters = Object.fromEntries(offered.map((name) => [name, query.get(name)]));
  const filtered = Object.values(filter).some((value) => value !== null);
  const feed = useFeed(useSource(), filter, live);
  const flows = live && feed.fault === null;
  const opened = query.get("request");
  return page(
    {
      title: "Requests",
      side: actionButton(
        () => setLive(!live),
        [span({ class: "pulse", "aria-hidden": "true" }), live ? "Live" : "Paused"],
        { class: classes("button live", flows && "on"), "aria-pressed": live },
      ),
      tools: h(Filters, { offered, query, charges: feed.data ?? [] }),
      resource: feed,
      lines: 8,
      content: (charges) => (charges.length === 0 ? noRequests(filtered) : listed(charges, feed, whole)),
    },
    opened !== null && h(ChargeDrawer, { key: opened, id: opened, onClosed: () => setQuery({ request: null }) }),
  );
}

const fieldNames: Record<FilterName, string> = { key: "Key", team: "Team", model: "Model", state: "State" };
const typedMs = 350;

interface FilterProps {
  readonly offered: readonly FilterName[];
  readonly query: URLSearchParams;
  /** Charges whose names are suggested. */
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
      actionButton(
        () => setQuery(Object.fromEntries(filterNames.map((name) => [name, null]))),
        [icon("close"), "Clear"],
        { class: "button small" },
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

interface TextFilterProps {
  readonly name: Exclude<FilterName, "state">;
  readonly value: string;
  readonly known: readonly (string | null)[];
}

/** Applies the filter when the user stops typing. */
function TextFilter({ name, value, known }: TextFilterProps): View {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text.trim() === value) return undefined;
    const timer = setTimeout(() => setQuery({ [name]: text.trim() }), typedMs);
    return () => clearTimeout(timer);
  }, [text, value, name]);
  return searchBox(fieldNames[name], text, setText, known.filter((each) => each !== null).toSorted());
}

function noRequests(filtered: boolean): View {
  return filtered
    ? empty("No matching requests", "Names must match exactly. New matching requests appear here automatically.")
    : empty("No requests yet", "They appear here as they arrive.");
}

function listed(charges: readonly Charge[], feed: Feed, whole: boolean): View {
  const open = ({ request_id: request }: Charge) => setQuery({ request });
  return h(
    Card,
    { title: span({ class: "unseen" }, "Newest requests"), class: "list-card" },
    dataTable({
      caption: "Requests, newest first",
      class: "requests",
      rows: charges,
      keyOf: ({ request_id }) => request_id,
      rowClass: ({ state }) => state,
      onOpen: open,
      columns: [
        { head: "Time", cellClass: "time", cell: (charge) => timeButton(charge, () => open(charge)) },
        whole && { head: "Key", cellClass: "key", cell: keyOf },
        { head: "Model", cellClass: "model", cell: modelOf },
        { head: "Tokens", class: "right wide-only", cellClass: "num", cell: tokensOf },
        {
          head: "Duration",
          class: "right wide-only",
          cellClass: "num",
          cell: ({ duration_ms: ms }) => (ms === null ? "" : duration(ms)),
        },
        { head: "Source", cellClass: "known", cell: (charge) => [knownBadge(charge), " ", doubtBadge(charge)] },
        { head: "Cost", class: "right", cellClass: "cost", cell: costOf },
      ],
    }),
    feed.hasOlder &&
      div(
        { class: "more" },
        actionButton(feed.loadOlder, feed.loadingOlder ? "Loading…" : "Show older", { disabled: feed.loadingOlder }),
      ),
  );
}

function timeButton({ time, model }: Charge, open: () => void): View {
  return openButton(open, moment(time, when(time)), `Request of ${when(time)}, ${model}`);
}

function keyOf({ key, team }: Charge): Children {
  return [key ?? span({ class: "muted" }, "no key"), team !== null && span({ class: "muted" }, ` ${team}`)];
}

function modelOf({ model, stream, tags }: Charge): Children {
  return [model, stream && span({ class: "tag" }, "stream"), tagsOf(tags)];
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

/** Shows the cost of a request. Shows its hold while it is pending. */
function costOf({ state, cost_usd: cost, hold_usd: hold }: Charge): View | string {
  if (state === "voided") return span({ class: "muted" }, "–");
  if (state === "pending") return hold === null ? "" : span({ class: "muted", title: "Hold" }, "≤ ", amount(hold));
  return amount(cost);
}
