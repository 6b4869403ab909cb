import { h } from "preact";
import { useState } from "preact/hooks";
import { classes, div, p, small, span, type Children, type View } from "../dom.ts";
import { count, duration, when } from "../format.ts";
import { csvLink } from "../list.ts";
import { addressOf, closeDrawer, goTo, openDrawer, useRoute } from "../location.ts";
import { useRange } from "../range.ts";
import { useSource, useUser } from "../resource.ts";
import { pageOfScope } from "../scopes.ts";
import { dataTable, figures, openButton, type Column } from "../table.ts";
import type { ChargeJson, RefusalJson } from "../types.ts";
import { actionButton, amount, badge, Card, empty, instantOf, link, moment, muted, page } from "../ui.ts";
import { ChargeDrawer } from "./charge.ts";
import { chargesOf, isRefusedFilter, refusalsOf, useFeed, type Feed } from "./feed.ts";
import { Filters, orderOf, type ListedRequests } from "./filters.ts";
import { doubtBadge, keyLink, modelLink, refusalReason, sourceBadge, tagsOf, teamLink, upperFirst } from "./labels.ts";
import { requestsOf, type Row } from "./request-rows.ts";

export function Requests(): View {
  const { who } = useUser();
  const { query } = useRoute();
  const [live, setLive] = useState(true);
  const isAdmin = who.kind === "admin";
  const source = useSource();
  const { charges, refusals, isFiltered } = requestsOf(query, useRange(null).bounds, isAdmin);
  const feed = useFeed(
    charges && chargesOf(source, charges),
    refusals && refusalsOf(source, refusals),
    live,
    query.get("sort") !== null,
  );
  const onlyRefused = charges === null;
  const isUpdating = live && feed.fault === null;
  const opened = query.get("request");
  const seen = feed.data?.flatMap((row) => (row.kind === "charge" ? [row.charge.model] : []));
  // A filter with an unknown name matches nothing, so the page shows an empty list instead of a failure.
  const isUnknown = feed.fault !== null && isRefusedFilter(feed.fault);
  return page(
    {
      title: "Requests",
      side: div(
        { class: "actions" },
        onlyRefused
          ? csvLink(`${source}/refusals`, refusals ?? {}, "Download the refused requests")
          : csvLink(`${source}/charges`, charges, "Download the requests without the refused ones"),
        actionButton(
          () => setLive(!live),
          [span({ class: "pulse", "aria-hidden": "true" }), live ? "Live" : "Paused"],
          { class: classes("button live", isUpdating && "on"), "aria-pressed": live },
        ),
      ),
      tools: h(Filters, { query, isAdmin, onlyRefused, models: [...new Set(seen)].toSorted() }),
      resource: isUnknown ? { ...feed, data: [], fault: null } : feed,
      lines: 8,
      content: (rows) =>
        rows.length === 0 ? noRequests(isFiltered, feed, query) : listed(rows, feed, { query, isAdmin, onlyRefused }),
    },
    opened !== null && h(ChargeDrawer, { key: opened, id: opened, onClosed: () => closeDrawer({ request: null }) }),
  );
}

function noRequests(isFiltered: boolean, feed: Feed, query: URLSearchParams): View {
  if (!isFiltered) return empty("No requests yet", "They appear here as they arrive.");
  return empty(
    "No matching requests",
    feed.fault !== null ? upperFirst(feed.fault.message) : "New matching requests appear here automatically.",
    searchedNote(feed, query),
    feed.hasOlder && div(null, olderButton(feed)),
  );
}

/**
 * States which requests were searched if the server did not examine all; otherwise returns null. In a list by time, the
 * next page continues the search.
 */
function searchedNote({ examinedTo, hasOlder }: Feed, query: URLSearchParams): View | null {
  if (examinedTo === null) return null;
  const [isByTime, isAscending] = [(query.get("sort") ?? "time") === "time", query.get("order") === "asc"];
  return p(
    { class: "hint" },
    `Only requests ${isByTime && isAscending ? "until" : "since"} `,
    instantOf(examinedTo, "minute"),
    " were searched.",
    !(isByTime && hasOlder) && " Choose a shorter time range.",
  );
}

function olderButton({ loadOlder, loadingOlder }: Feed): View {
  return actionButton(loadOlder, loadingOlder ? "Loading…" : "Show older", { disabled: loadingOlder });
}

function listed(rows: readonly Row[], feed: Feed, { query, isAdmin, onlyRefused }: ListedRequests): View {
  const open = (row: Row) =>
    row.kind === "charge" ? openDrawer({ request: row.id }) : goTo(reasonAddress(row.refusal, isAdmin));
  const order = orderOf(query);
  return h(
    Card,
    { title: span({ class: "unseen" }, "Newest requests"), class: "list-card" },
    dataTable<Row>({
      caption: order.sort === "time" && order.order === "desc" ? "Requests, newest first" : "Requests",
      class: "requests",
      rows,
      keyOf: ({ id }) => id,
      rowClass: (row) => (row.kind === "charge" ? row.charge.state : "refused"),
      onOpen: open,
      order,
      columns: [
        {
          head: "Time",
          sort: "time",
          cellClass: "time",
          cell: (row) =>
            row.kind === "charge" ? timeButton(row.charge, () => open(row)) : moment(row.time, when(row.time)),
        },
        isAdmin && {
          head: "Key",
          cellClass: "key",
          cell: (row) => keyOf(row.kind === "charge" ? row.charge : row.refusal),
        },
        {
          head: "Model",
          cellClass: "model",
          cell: (row) =>
            row.kind === "charge" ? modelOf(row.charge, isAdmin) : refusalOf(row.refusal, { isAdmin, onlyRefused }),
          // A refused request has neither tokens nor a duration; its reason needs the space.
          spanOf: (row) => (row.kind === "charge" || onlyRefused ? 1 : 3),
        },
        !onlyRefused && figures("Tokens", (row) => row.kind === "charge" && tokensOf(row.charge), ofCharge),
        !onlyRefused && figures("Duration", (row) => row.kind === "charge" && durationOf(row.charge), ofCharge),
        {
          ...(onlyRefused ? { head: "Count", sort: "count" } : { head: "Source" }),
          cellClass: "known",
          cell: (row) =>
            row.kind === "charge" ? [sourceBadge(row.charge), " ", doubtBadge(row.charge)] : refusedBadge(row.refusal),
        },
        {
          ...(onlyRefused ? { head: "Needed", sort: "needed" } : { head: "Cost", sort: "cost" }),
          class: "right",
          cellClass: "cost",
          cell: (row) => (row.kind === "charge" ? costOf(row.charge) : neededOf(row.refusal, onlyRefused)),
        },
      ],
    }),
    (feed.hasOlder || feed.examinedTo !== null) &&
      div({ class: "more" }, searchedNote(feed, query), feed.hasOlder && olderButton(feed)),
  );
}

/**
 * Shows the model of refused requests and the reason for the refusal. Adds the needed amount if the list has no column
 * for it. The reason links to the page that explains it.
 */
function refusalOf(refusal: RefusalJson, { isAdmin, onlyRefused }: Omit<ListedRequests, "query">): Children {
  const { model, needed_usd: needed } = refusal;
  return [
    model === null ? muted("no model") : nameOfModel(model, isAdmin),
    small(
      { class: "reason" },
      link(reasonAddress(refusal, isAdmin), upperFirst(refusalReason(refusal)), "link row-open"),
      needed !== null && !onlyRefused && [muted(" · needed "), amount(needed)],
    ),
  ];
}

/** Returns the address of the budget or limit that refused requests, or of the refusals with the same code. */
function reasonAddress({ code, scope, period }: RefusalJson, isAdmin: boolean): string {
  if (scope !== null && !isAdmin) return addressOf("standing");
  if (scope !== null && period !== null) return addressOf("budgets", { scope, period });
  const limited = scope === null ? null : pageOfScope(scope);
  return limited === null
    ? addressOf("requests", { status: "refused", code })
    : addressOf([`${limited[0]}s`, limited[1]]);
}

function neededOf({ needed_usd: needed }: RefusalJson, hasColumn: boolean): View {
  return needed === null || !hasColumn ? muted("–") : amount(needed);
}

function refusedBadge({ count: times, first_at: first, last_at: last }: RefusalJson): View {
  const title = times === 1 ? undefined : `${count(times)} requests from ${when(first)} to ${when(last)}`;
  return badge("bad", times === 1 ? "refused" : `refused × ${count(times)}`, title);
}

function timeButton({ time, model }: ChargeJson, open: () => void): View {
  return openButton(open, moment(time, when(time)), `Request of ${when(time)}, ${model}`);
}

function keyOf({ key, team }: Pick<ChargeJson, "key" | "team">): Children {
  return [key === null ? muted("no key") : keyLink(key), team !== null && [" ", teamLink(team, "link muted")]];
}

/** Returns the name of a model. For an admin, the name is a link to the model's page. */
function nameOfModel(model: string, isAdmin: boolean): View | string {
  return isAdmin ? modelLink(model) : model;
}

function modelOf({ model, stream, tags }: ChargeJson, isAdmin: boolean): Children {
  return [nameOfModel(model, isAdmin), stream && span({ class: "tag" }, "stream"), tagsOf(tags)];
}

/** Options for a column that rows of refusals leave out. */
const ofCharge: Partial<Column<Row>> = {
  class: "right wide-only",
  spanOf: ({ kind }) => (kind === "charge" ? 1 : 0),
};

function durationOf({ duration_ms: ms }: ChargeJson): string | false {
  return ms !== null && duration(ms);
}

const promptClasses = new Set(["input", "cached_input", "cache_write", "cache_write_1h", "audio_input", "image_input"]);

function tokensOf({ tokens, state }: ChargeJson): View | string {
  if (state !== "posted") return "";
  const all = Object.entries(tokens);
  const sum = (ofPrompt: boolean) =>
    all.filter(([name]) => promptClasses.has(name) === ofPrompt).reduce((total, [, number]) => total + number, 0);
  return span(
    { title: `${count(sum(true))} tokens in, ${count(sum(false))} out` },
    count(sum(true)),
    muted(" → "),
    count(sum(false)),
  );
}

/** Shows the cost of a request. Shows its hold while it is pending. */
function costOf({ state, cost_usd: cost, hold_usd: hold }: ChargeJson): View | string {
  if (state === "voided") return muted("–");
  if (state === "pending") return hold === null ? "" : span({ class: "muted", title: "Hold" }, "≤ ", amount(hold));
  return amount(cost);
}
