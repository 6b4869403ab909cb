import { h } from "preact";
import { admin, ask } from "../api.ts";
import {
  caption,
  classes,
  code,
  div,
  h1,
  header,
  li,
  p,
  section,
  span,
  strong,
  table,
  tbody,
  td,
  th,
  thead,
  tr,
  ul,
  type Children,
  type View,
} from "../dom.ts";
import { ago, count, instant, money, percent } from "../format.ts";
import { addressOf } from "../location.ts";
import { useResource } from "../resource.ts";
import type { Alert, Health as Figures, Reconciliation } from "../types.ts";
import { amount, badge, Card, failure, link, moment, waiting, type Tone } from "../ui.ts";
import { upperFirst } from "./words.ts";

/** Shows the health of the gateway, its bill next to the ledger, and old holds. */
export function Health(): View {
  const { data, fault, reload } = useResource<Figures>((signal) => ask(`${admin}/health`, { signal }), "health", {
    everyMs: 5000,
  });
  return div(
    { class: "view" },
    header(
      { class: "view-head" },
      h1(null, "Health"),
      data !== null && (data.ready ? badge("good", "Ready") : badge("bad", "Not ready")),
    ),
    fault !== null && failure({ fault, retry: reload }),
    data === null ? fault === null && waiting(6) : h(Content, { data }),
  );
}

function Content({ data }: { readonly data: Figures }): View {
  const { gateway, pending, alerts } = data;
  return div(
    { class: "stack" },
    section(
      { class: "tiles", "aria-label": "Summary" },
      tile(
        "Gateway errors",
        count(gateway.errors),
        gateway.errors === 0 ? "good" : gateway.errors < gateway.requests * alarmingShare ? "warn" : "bad",
        `of ${count(gateway.requests)} requests since ${instant(gateway.since, "moment")}`,
      ),
      tile(
        "Pending holds",
        count(pending.count),
        pending.old.length === 0 ? "good" : "warn",
        pending.oldest_at === null ? "none in flight" : `the oldest began ${ago(pending.oldest_at)}`,
      ),
      billTile(data.reconciliation),
      tile("Alerts", count(alerts.day), alerts.day === 0 ? "good" : "warn", "in the last 24 hours"),
      reviewTile(data.prices),
    ),
    div(
      { class: "columns" },
      h(
        Card,
        { title: "Gateway", hint: "Requests and errors a minute, in the last hour" },
        minutes(gateway),
        statuses(gateway.by_status),
        lastErrors(gateway.last),
      ),
      h(
        Card,
        { title: "Bill and ledger" },
        data.reconciliation === null
          ? p(
              { class: "hint quiet" },
              `${upperFirst(data.reconciliation_missing ?? "there is nothing to compare yet")}.`,
            )
          : reconciliation(data.reconciliation),
      ),
    ),
    pending.old.length > 0 &&
      h(
        Card,
        { title: "Old holds", hint: "Held for more than five minutes; long streams and tasks hold until they end" },
        oldHolds(pending.old),
      ),
    data.stream_bursts.length > 0 &&
      h(
        Card,
        { title: "Stream bursts", hint: "Whole answers are held for at least an hour, and until three live streams" },
        streamBursts(data.stream_bursts),
      ),
    h(
      Card,
      { title: "Alerts" },
      alerts.latest.length === 0
        ? p(
            { class: "hint quiet" },
            "No alerts. Budgets that are nearly used up, a low balance and a bill that differs from the ledger appear here.",
          )
        : ul({ class: "alerts" }, alerts.latest.map(alertRow)),
    ),
    p(
      { class: "hint about" },
      `Farebox ${data.version}, up since `,
      moment(data.started_at, instant(data.started_at, "moment")),
      `, ${count(data.prices.models)} models, prices `,
      code(null, data.prices.digest.slice(0, 12)),
    ),
  );
}

/** Share of errors above which the gateway counts as failing. */
const alarmingShare = 0.05;

function billTile(found: Reconciliation | null): View {
  if (found === null) return tile("Bill and ledger", "–", null, "not compared yet");
  return tile(
    "Bill and ledger",
    found.ok ? "Agree" : "Differ",
    found.ok ? "good" : "bad",
    `${apart(found.difference_usd)} apart in 24 hours`,
  );
}

function reviewTile({ reviewed_on, age_days, review_due }: Figures["prices"]): View {
  if (reviewed_on === null || age_days === null) return tile("Price review", "–", "bad", "no price is in force");
  const age = age_days === 1 ? "1 day ago" : `${count(age_days)} days ago`;
  const hint = `on ${instant(`${reviewed_on}T00:00:00Z`, "date", "UTC")}`;
  return tile(
    "Price review",
    age_days === 0 ? "Today" : age,
    review_due ? "warn" : "good",
    review_due ? `${hint}: prices may have changed since` : hint,
  );
}

/** Shows a difference below one cent without digits. */
function apart(usd: string): string {
  return Math.abs(Number(usd)) < 0.01 && Number(usd) !== 0 ? `less than ${money("0.01")}` : money(usd);
}

function tile(name: string, figure: string, tone: Tone | null, note: string): View {
  return div(
    { class: "tile" },
    span({ class: "tile-name" }, tone !== null && span({ class: `dot ${tone}`, "aria-hidden": "true" }), name),
    span({ class: "figure num" }, figure),
    div({ class: "note" }, note),
  );
}

function minutes({ minutes: { starts, requests, errors } }: Figures["gateway"]): View {
  const most = Math.max(...requests, 1);
  const [all, failed] = [requests, errors].map((each) => each.reduce((sum, one) => sum + one, 0));
  const label = `In the last hour ${count(all ?? 0)} requests, ${count(failed ?? 0)} of them errors`;
  return div(
    { class: "minutes", role: "img", "aria-label": label },
    starts.map((start, at) => {
      const [total, bad] = [requests[at] ?? 0, errors[at] ?? 0];
      return span(
        { key: start, title: `${instant(start, "clock")}: ${count(total)} requests, ${count(bad)} errors` },
        span({ class: "ok", style: { height: `${(Math.max(total - bad, 0) / most) * 100}%` } }),
        span({ class: "bad", style: { height: `${(bad / most) * 100}%` } }),
      );
    }),
  );
}

function statuses(by: Readonly<Record<string, number>>): Children {
  const rows = Object.entries(by).toSorted(([, one], [, other]) => other - one);
  return (
    rows.length > 0 &&
    p(
      { class: "statuses" },
      rows.map(([status, number]) => badge("bad", `${status} × ${count(number)}`)),
    )
  );
}

function lastErrors(last: Figures["gateway"]["last"]): View {
  if (last.length === 0) return p({ class: "hint quiet" }, "The gateway answered every request.");
  return table(
    { class: "plain" },
    caption({ class: "unseen" }, "Recent gateway errors"),
    thead(
      null,
      tr(
        null,
        ["Time", "Model", "Status"].map((text) => th({ key: text, scope: "col" }, text)),
      ),
    ),
    tbody(
      null,
      last
        .slice(0, 8)
        .map((each) =>
          tr(
            { key: each.request_id },
            td(null, link(addressOf("requests", { request: each.request_id }), moment(each.time, ago(each.time)))),
            td(null, each.model),
            td({ class: "num" }, each.status ?? "none"),
          ),
        ),
    ),
  );
}

const kinds: Record<string, string> = {
  top_up: "Top-ups",
  topup: "Top-ups",
  expiry: "Expired",
  frozen: "Frozen credits",
  other_use: "Used by others",
};

function reconciliation(found: Reconciliation): View {
  const {
    ok,
    ledger_usd: ledger,
    gateway_usd: gateway,
    difference_usd: difference,
    difference_percent: share,
    uncertainty,
  } = found;
  const above = uncertainty.above_usd === null ? "any amount" : money(uncertainty.above_usd);
  const line = (name: string, value: Children, note?: Children) =>
    li({ class: "fact", key: name }, span({ class: "muted" }, name), span(null, value, note));
  return div(
    null,
    p(
      { class: "verdict" },
      badge(ok ? "good" : "bad", ok ? "Agree" : "Differ"),
      span({ class: "muted" }, ok ? " within the uncertainty" : " beyond the uncertainty"),
    ),
    ul(
      { class: "facts" },
      line("Ledger", amount(ledger, { exact: true })),
      Number(found.cost_in_doubt_usd) > 0 && line("In doubt", amount(found.cost_in_doubt_usd, { exact: true })),
      line("Gateway", amount(gateway, { exact: true })),
      line(
        "Difference",
        amount(difference, { exact: true }),
        share !== null && span({ class: "muted num" }, ` ${percent(share / 100)}`),
      ),
      line("Uncertainty", span({ class: "num" }, `−${money(uncertainty.below_usd)} to +${above}`)),
      ...found.movements.map(({ kind, usd, estimate }) =>
        line(kinds[kind] ?? kind.replaceAll("_", " "), amount(usd), estimate && span({ class: "muted" }, " estimated")),
      ),
      line("Compared", span(null, `${count(found.samples)} samples, ${count(found.requests)} requests`)),
    ),
  );
}

function oldHolds(old: Figures["pending"]["old"]): View {
  return table(
    { class: "plain" },
    caption({ class: "unseen" }, "Old holds"),
    thead(
      null,
      tr(
        null,
        th({ scope: "col" }, "Since"),
        th({ scope: "col" }, "Key"),
        th({ scope: "col", class: "right" }, "Held"),
        th({ scope: "col" }, span({ class: "unseen" }, "Notes")),
      ),
    ),
    tbody(
      null,
      old.map((each) =>
        tr(
          { key: each.request_id },
          td(
            null,
            link(addressOf("requests", { request: each.request_id }), moment(each.held_since, ago(each.held_since))),
          ),
          td(null, each.key ?? "no key"),
          td({ class: "right" }, amount(each.hold_usd)),
          td(null, each.orphaned && badge("warn", "its process is gone")),
        ),
      ),
    ),
  );
}

function streamBursts(marks: Figures["stream_bursts"]): View {
  return table(
    { class: "plain" },
    caption({ class: "unseen" }, "Stream bursts"),
    thead(
      null,
      tr(
        null,
        ["Since", "Model", "Key", "Live streams"].map((text) => th({ key: text, scope: "col" }, text)),
      ),
    ),
    tbody(
      null,
      marks.map((mark) =>
        tr(
          { key: `${mark.model} ${mark.key ?? ""}` },
          td(null, moment(mark.since, ago(mark.since))),
          td(null, mark.model),
          td(null, mark.all_keys ? "all keys" : mark.key === null || mark.key === "" ? "no key" : mark.key),
          td({ class: "num" }, count(mark.live_streams)),
        ),
      ),
    ),
  );
}

const deliveryWords: Record<Alert["delivery"]["state"], [Tone, string]> = {
  delivered: ["good", "delivered"],
  waiting: ["calm", "waiting"],
  given_up: ["bad", "not delivered"],
  unsent: ["calm", "not sent: no webhook"],
};

function alertRow({ id, time: at, severity, title, text, delivery }: Alert): View {
  const [tone, word] = deliveryWords[delivery.state];
  // The text repeats the title, for messages without one.
  const rest = text.replace(`Farebox: ${title}. `, "");
  return li(
    { key: id, class: classes("alert", severity) },
    div(null, strong(null, upperFirst(title)), p({ class: "hint" }, rest)),
    div({ class: "alert-side" }, moment(at, ago(at)), badge(tone, word, delivery.last_error ?? undefined)),
  );
}
