import { h } from "preact";
import { admin } from "../api.ts";
import { classes, code, div, li, p, section, span, strong, ul, type Children, type View } from "../dom.ts";
import { ago, count, instant, money, percent } from "../format.ts";
import { addressOf } from "../location.ts";
import { useAnswer } from "../resource.ts";
import { dataTable } from "../table.ts";
import type { Alert, Health as Figures, Iso, Reconciliation } from "../types.ts";
import { amount, badge, Card, link, moment, page, tile, type Tone } from "../ui.ts";
import { upperFirst } from "./words.ts";

/** Shows the health of the gateway, compares its bill with the ledger, and lists old holds. */
export function Health(): View {
  const resource = useAnswer<Figures>(`${admin}/health`, 5000);
  const { data } = resource;
  return page({
    title: "Health",
    side: data !== null && (data.ready ? badge("good", "Ready") : badge("bad", "Not ready")),
    resource,
    lines: 6,
    content: (data) => h(Content, { data }),
  });
}

function Content({ data }: { readonly data: Figures }): View {
  const { gateway, pending, alerts } = data;
  return div(
    { class: "stack" },
    section(
      { class: "tiles", "aria-label": "Summary" },
      tile({
        name: "Gateway errors",
        figure: count(gateway.errors),
        tone: gateway.errors === 0 ? "good" : gateway.errors < gateway.requests * alarmingShare ? "warn" : "bad",
        note: `of ${count(gateway.requests)} requests since ${instant(gateway.since, "moment")}`,
      }),
      tile({
        name: "Pending holds",
        figure: count(pending.count),
        tone: pending.old.length === 0 ? "good" : "warn",
        note: pending.oldest_at === null ? "none in flight" : `the oldest began ${ago(pending.oldest_at)}`,
      }),
      billTile(data.reconciliation),
      tile({
        name: "Alerts",
        figure: count(alerts.day),
        tone: alerts.day === 0 ? "good" : "warn",
        note: "in the last 24 hours",
      }),
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

/** Share of failed requests above which the tile marks the gateway as failing. */
const alarmingShare = 0.05;

function billTile(found: Reconciliation | null): View {
  const name = "Bill and ledger";
  if (found === null) return tile({ name, figure: "–", note: "not compared yet" });
  const note = `${apart(found.difference_usd)} apart in 24 hours`;
  return tile({ name, figure: found.ok ? "Agree" : "Differ", tone: found.ok ? "good" : "bad", note });
}

function reviewTile({ reviewed_on, age_days: days, review_due: due }: Figures["prices"]): View {
  const name = "Price review";
  if (reviewed_on === null || days === null)
    return tile({ name, figure: "–", tone: "bad", note: "no price is in force" });
  const figure = days === 0 ? "Today" : days === 1 ? "1 day ago" : `${count(days)} days ago`;
  const date = `on ${instant(`${reviewed_on}T00:00:00Z`, "date", "UTC")}`;
  const note = due ? `${date}: prices may have changed since` : date;
  return tile({ name, figure, tone: due ? "warn" : "good", note });
}

/** Formats a difference. Replaces one below a cent by "less than" and a cent. */
function apart(usd: string): string {
  return Math.abs(Number(usd)) < 0.01 && Number(usd) !== 0 ? `less than ${money("0.01")}` : money(usd);
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
  return dataTable({
    caption: "Recent gateway errors",
    class: "plain",
    rows: last.slice(0, 8),
    keyOf: ({ request_id }) => request_id,
    columns: [
      { head: "Time", cell: ({ request_id, time }) => requestLink(request_id, time) },
      { head: "Model", cell: ({ model }) => model },
      { head: "Status", cellClass: "num", cell: ({ status }) => status ?? "none" },
    ],
  });
}

function requestLink(request: string, time: Iso): View {
  return link(addressOf("requests", { request }), moment(time, ago(time)));
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
  return dataTable({
    caption: "Old holds",
    class: "plain",
    rows: old,
    keyOf: ({ request_id }) => request_id,
    columns: [
      { head: "Since", cell: ({ request_id, held_since }) => requestLink(request_id, held_since) },
      { head: "Key", cell: ({ key }) => key ?? "no key" },
      { head: "Held", class: "right", cell: ({ hold_usd: usd }) => amount(usd) },
      { head: "Notes", unseen: true, cell: ({ orphaned }) => orphaned && badge("warn", "its process is gone") },
    ],
  });
}

function streamBursts(marks: Figures["stream_bursts"]): View {
  return dataTable({
    caption: "Stream bursts",
    class: "plain",
    rows: marks,
    keyOf: ({ model, key }) => `${model} ${key ?? ""}`,
    columns: [
      { head: "Since", cell: ({ since }) => moment(since, ago(since)) },
      { head: "Model", cell: ({ model }) => model },
      { head: "Key", cell: ({ all_keys: all, key }) => (all ? "all keys" : key || "no key") },
      { head: "Live streams", cellClass: "num", cell: ({ live_streams: streams }) => count(streams) },
    ],
  });
}

const deliveryWords: Record<Alert["delivery"]["state"], [Tone, string]> = {
  delivered: ["good", "delivered"],
  waiting: ["calm", "waiting"],
  given_up: ["bad", "not delivered"],
  unsent: ["calm", "not sent: no webhook"],
};

function alertRow({ id, time: at, severity, title, text, delivery }: Alert): View {
  const [tone, word] = deliveryWords[delivery.state];
  // The text repeats the title for messages that have no title of their own.
  const rest = text.replace(`Farebox: ${title}. `, "");
  return li(
    { key: id, class: classes("alert", severity) },
    div(null, strong(null, upperFirst(title)), p({ class: "hint" }, rest)),
    div({ class: "alert-side" }, moment(at, ago(at)), badge(tone, word, delivery.last_error ?? undefined)),
  );
}
