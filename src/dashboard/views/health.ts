import { h } from "preact";
import { adminBase } from "../api.ts";
import { classes, code, div, li, p, section, span, strong, ul, type Children, type View } from "../dom.ts";
import { ago, count, counted, instant, money, percent } from "../format.ts";
import { addressOf } from "../location.ts";
import { useAnswer } from "../resource.ts";
import { dataTable } from "../table.ts";
import type { AlertJson, HealthJson, ReconciliationJson } from "../types.ts";
import { amount, badge, Card, link, moment, muted, page, tile, timeAgo, type Tone } from "../ui.ts";
import { keyLink, modelLink, requestLink, upperFirst } from "./labels.ts";

/** Shows the health of the gateway, compares its bill with the ledger, and lists old holds. */
export function Health(): View {
  const resource = useAnswer<HealthJson>(`${adminBase}/health`, 5000);
  const { data } = resource;
  return page({
    title: "Health",
    side: data !== null && (data.ready ? badge("good", "Ready") : badge("bad", "Not ready")),
    resource,
    lines: 6,
    content: (data) => h(Content, { data }),
  });
}

function Content({ data }: { readonly data: HealthJson }): View {
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
        {
          title: "Old holds",
          hint: "Pending for more than five minutes; a long stream or a task keeps its hold until it ends",
        },
        oldHolds(pending.old),
      ),
    data.stream_bursts.length > 0 &&
      h(
        Card,
        {
          title: "Stream bursts",
          hint: "Holds cover the whole answer until an hour has passed and three live streams have followed",
        },
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

/** Share of failed requests from which the tile marks the gateway as failing. */
const alarmingShare = 0.05;

function billTile(found: ReconciliationJson | null): View {
  const name = "Bill and ledger";
  if (found === null) return tile({ name, figure: "–", note: "not compared yet" });
  const note = ["difference in 24 hours: ", span({ class: "num" }, differenceText(found.difference_usd))];
  const [tone, figure] = verdicts[found.comparison];
  return tile({ name, figure, tone, note });
}

const verdicts: Record<ReconciliationJson["comparison"], readonly [Tone, string]> = {
  agree: ["good", "Agree"],
  differs: ["bad", "Differ"],
  cannot_tell: ["warn", "Cannot tell"],
};

const explanations: Record<ReconciliationJson["comparison"], string> = {
  agree: " within the uncertainty",
  differs: " beyond the uncertainty",
  cannot_tell: " whether they agree: the uncertainty is too large",
};

function reviewTile({ reviewed_on, age_days: days, review_due: due }: HealthJson["prices"]): View {
  const name = "Price review";
  if (reviewed_on === null || days === null)
    return tile({ name, figure: "–", tone: "bad", note: "no price is in force" });
  const figure = days === 0 ? "Today" : `${counted(days, "day")} ago`;
  const date = `on ${instant(`${reviewed_on}T00:00:00Z`, "date", "UTC")}`;
  const note = due ? `${date}: prices may have changed since` : date;
  return tile({ name, figure, tone: due ? "warn" : "good", note });
}

/** Formats a difference. A difference below one cent becomes "less than $0.01". */
function differenceText(usd: string): string {
  return Math.abs(Number(usd)) < 0.01 && Number(usd) !== 0 ? `less than ${money("0.01")}` : money(usd);
}

function minutes({ minutes: { starts, requests, errors } }: HealthJson["gateway"]): View {
  const most = Math.max(...requests, 1);
  const [all, failed] = [requests, errors].map((each) => each.reduce((sum, one) => sum + one, 0));
  const label = `In the last hour: ${count(all ?? 0)} requests, ${count(failed ?? 0)} errors`;
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

function lastErrors(last: HealthJson["gateway"]["last"]): View {
  if (last.length === 0) return p({ class: "hint quiet" }, "No gateway errors.");
  return dataTable({
    caption: "Recent gateway errors",
    class: "plain",
    rows: last.slice(0, 8),
    keyOf: ({ request_id }) => request_id,
    columns: [
      { head: "Time", cell: ({ request_id, time }) => requestLink(request_id, time) },
      { head: "Model", cell: ({ model }) => model && modelLink(model) },
      { head: "Status", cellClass: "num", cell: ({ status }) => status ?? "none" },
    ],
  });
}

const movementNames: Record<ReconciliationJson["movements"][number]["kind"], string> = {
  top_up: "Top-ups",
  withdrawn: "Withdrawn",
  expired: "Expired",
  frozen: "Frozen credits",
  inactive: "Inactive credits",
  use_by_others: "Used by others",
  refund: "Refunds",
  unexplained: "Unexplained",
};

function reconciliation(found: ReconciliationJson): View {
  const { comparison, why, difference_percent: share, uncertainty } = found;
  const { below_usd, above_usd } = uncertainty;
  const below = Number(below_usd) > 0 ? money(`-${below_usd}`) : money(below_usd);
  const above = above_usd === null ? "any amount" : `${Number(above_usd) > 0 ? "+" : ""}${money(above_usd)}`;
  const line = (name: string, value: Children, note?: Children) =>
    li({ class: "fact", key: name }, muted(name), span(null, value, note));
  return div(
    null,
    p({ class: "verdict" }, badge(...verdicts[comparison]), muted(explanations[comparison])),
    why !== null && p({ class: "hint why" }, upperFirst(why)),
    ul(
      { class: "facts" },
      line("Ledger", amount(found.ledger_usd, { exact: true })),
      Number(found.cost_in_doubt_usd) > 0 && line("In doubt", amount(found.cost_in_doubt_usd, { exact: true })),
      line("Gateway", amount(found.gateway_usd, { exact: true })),
      line(
        "Difference",
        amount(found.difference_usd, { exact: true }),
        share !== null && span({ class: "muted num" }, ` ${percent(share / 100)}`),
      ),
      line("Uncertainty", span({ class: "num" }, `${below} to ${above}`)),
      ...found.movements.map(({ kind, usd, estimate }) =>
        line(movementNames[kind], amount(usd), estimate && muted(" estimated")),
      ),
      line("Compared", span(null, `${count(found.samples)} samples, ${count(found.requests)} requests`)),
    ),
  );
}

function oldHolds(old: HealthJson["pending"]["old"]): View {
  return dataTable({
    caption: "Old holds",
    class: "plain",
    rows: old,
    keyOf: ({ request_id }) => request_id,
    columns: [
      { head: "Since", cell: ({ request_id, held_since }) => requestLink(request_id, held_since) },
      { head: "Key", cell: ({ key }) => (key === null ? "no key" : keyLink(key)) },
      { head: "Held", class: "right", cell: ({ hold_usd: usd }) => amount(usd) },
      { head: "Notes", unseen: true, cell: ({ orphaned }) => orphaned && badge("warn", "its proxy has ended") },
    ],
  });
}

function streamBursts(marks: HealthJson["stream_bursts"]): View {
  return dataTable({
    caption: "Stream bursts",
    class: "plain",
    rows: marks,
    keyOf: ({ model, key }) => `${model} ${key ?? ""}`,
    columns: [
      { head: "Since", cell: ({ since }) => timeAgo(since) },
      { head: "Model", cell: ({ model }) => modelLink(model) },
      {
        head: "Key",
        cell: ({ all_keys: all, key }) => (all ? "all keys" : key === null || key === "" ? "no key" : keyLink(key)),
      },
      { head: "Live streams", cellClass: "num", cell: ({ live_streams: streams }) => count(streams) },
    ],
  });
}

const deliveryBadges: Record<AlertJson["delivery"]["state"], [Tone, string]> = {
  delivered: ["good", "delivered"],
  waiting: ["calm", "waiting"],
  given_up: ["bad", "not delivered"],
  unsent: ["calm", "not sent: no webhook"],
};

/**
 * Returns the address of the page that shows the cause of an alert. Returns null if there is none, for example for a
 * low balance of the account.
 */
function alertAddress({ type, data: { scope, period } }: AlertJson): string | null {
  if (type === "raise_requested") return addressOf("budgets");
  if (type === "charges_unsettled") return addressOf("requests", { state: "pending" });
  return scope === undefined || scope === null ? null : addressOf("budgets", { scope, period });
}

function alertRow(alert: AlertJson): View {
  const { id, time: at, severity, title, text, delivery } = alert;
  const address = alertAddress(alert);
  const shown = upperFirst(title);
  const [tone, word] = deliveryBadges[delivery.state];
  // The text begins with the title, which is already shown.
  const rest = text.replace(`Farebox: ${title}. `, "");
  return li(
    { key: id, class: classes("alert", severity) },
    div(null, strong(null, address === null ? shown : link(address, shown)), p({ class: "hint" }, rest)),
    div({ class: "alert-side" }, timeAgo(at), badge(tone, word, delivery.last_error ?? undefined)),
  );
}
