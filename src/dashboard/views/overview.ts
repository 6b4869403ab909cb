import { h } from "preact";
import { ownBase } from "../api.ts";
import { spendChart } from "../chart.ts";
import { div, li, ol, p, section, span, type Children, type View } from "../dom.ts";
import { ago, count, counted, exactMoney, instant, lasting, money, percent, shareOf, shortCount } from "../format.ts";
import { icon } from "../icons.ts";
import { addressOf, oneOf, setQuery, useRoute } from "../location.ts";
import { RangeControl, useRange } from "../range.ts";
import { useAnswer, useSource, useUser } from "../resource.ts";
import {
  groupings,
  spans,
  type BalanceJson,
  type Grouping,
  type OverviewJson,
  type Spender,
  type MeJson,
} from "../types.ts";
import {
  actionButton,
  amount,
  badge,
  Card,
  headline,
  requestsHeadline,
  link,
  muted,
  page,
  segmented,
  selectBox,
  shareBar,
  tile,
} from "../ui.ts";
import { atRisk } from "./at-risk.ts";
import { FirstSteps } from "./first-steps.ts";
import { groupingNames } from "./labels.ts";
import { Blocked } from "./my-budgets.ts";
import { OpenRaisesHint } from "./raises.ts";

const filterNames = ["key", "team", "model"] as const;

export function Overview(): View {
  const { who } = useUser();
  const { query } = useRoute();
  const isAdmin = who.kind === "admin";
  const { preset, bounds } = useRange("7d");
  const named = spans.find((each) => each === preset);
  const offered = isAdmin ? groupings : (["model", "group"] as const);
  const by = oneOf<Grouping>(offered, query.get("by"), "model");
  const thenBy = offered.find((each) => each === query.get("then_by") && each !== by) ?? null;
  const compares = query.get("compare") === "previous";
  const filter = Object.fromEntries(
    filterNames.filter((name) => isAdmin || name === "model").map((name) => [name, query.get(name)]),
  );
  const resource = useAnswer<OverviewJson>(`${useSource()}/overview`, 15_000, {
    ...(named === undefined ? { since: bounds.since ?? "90d", until: bounds.until } : { span: named }),
    ...filter,
    by,
    then_by: thenBy,
    compare: compares ? "previous" : null,
  });
  const { data } = resource;
  const choices = div(
    { class: "range" },
    Object.entries(filter).map(
      ([name, value]) =>
        value !== null &&
        actionButton(
          () => setQuery({ [name]: null }),
          [`${groupingNames[name as Grouping]}: ${value}`, icon("close")],
          {
            key: name,
            "aria-label": `Remove the filter ${name} ${value}`,
          },
        ),
    ),
    h(RangeControl, { defaultPreset: "7d" }),
    actionButton(() => setQuery({ compare: compares ? null : "previous" }), "Compare", {
      "aria-pressed": compares,
      title: "Compare with the previous period",
    }),
  );
  return page({
    title: "Overview",
    side: data !== null && !data.empty.charges && choices,
    resource,
    lines: 6,
    tools: h(isAdmin ? OpenRaisesHint : OwnRefusals, null),
    content: (data) =>
      data.empty.charges
        ? h(FirstSteps, { hasKeys: !data.empty.keys })
        : h(Content, { data, by, thenBy, offered, filter, isAdmin }),
  });
}

/** Shows the user of a key why its requests are refused. */
function OwnRefusals(): View | null {
  const { data } = useAnswer<MeJson>(`${ownBase}/me`, 15_000);
  return data && h(Blocked, { me: data });
}

interface ContentProps {
  readonly data: OverviewJson;
  readonly by: Grouping;
  readonly thenBy: Grouping | null;
  readonly offered: readonly Grouping[];
  readonly filter: Readonly<Record<string, string | null>>;
  /** True for an admin, whose overview covers every key. */
  readonly isAdmin: boolean;
}

function Content({ data, by, thenBy, offered, filter, isAdmin }: ContentProps): View {
  const { name } = useRange("7d");
  const { span } = data;
  const shown = { since: span.since, until: span.until, ...filter };
  const grouping = [
    segmented({
      label: "Group by",
      value: by,
      options: offered.map((value) => ({ value, text: groupingNames[value] })),
      onChoose: (value) => setQuery({ by: value, then_by: value === thenBy ? null : thenBy }),
    }),
    selectBox({
      name: "Then by",
      value: thenBy ?? "",
      options: [
        ["", "No subgroups"],
        ...offered
          .filter((each) => each !== by)
          .map((each) => [each, `Then by ${groupingNames[each].toLowerCase()}`] as const),
      ],
      onChoose: (value) => setQuery({ then_by: value }),
    }),
  ];
  return div(
    { class: "stack" },
    tiles(data, isAdmin),
    isAdmin && atRisk(data.at_risk),
    h(
      Card,
      { title: "Spend over time", actions: grouping, class: "chart-card" },
      headlines(span, name),
      spendChart(data, filter),
    ),
    div(
      { class: "columns" },
      isAdmin && h(Card, { title: "Top keys" }, spenders(data.top.keys, span.cost_usd, "key", shown)),
      h(Card, { title: "Top models" }, spenders(data.top.models, span.cost_usd, "model", shown)),
    ),
  );
}

/** Shows the totals of the time span above the chart. */
function headlines(totals: OverviewJson["span"], name: string): View {
  const { cost_usd: cost, requests, unpriced_requests: unpriced, cost_in_doubt_usd: inDoubt, previous } = totals;
  return div(
    { class: "headlines" },
    headline(name, amount(cost)),
    previous !== null &&
      headline("Previous period", [
        amount(previous.cost_usd),
        " ",
        span(
          {
            class: "num delta",
            title: `${instant(previous.since, "minute")} – ${instant(previous.until, "minute")}, ${count(previous.requests)} requests`,
          },
          changeOf(cost, previous.cost_usd),
        ),
      ]),
    headline("List price", amount(totals.list_cost_usd)),
    requestsHeadline(requests),
    requests > 0 && headline("Average cost", span({ class: "num" }, money(String(Number(cost) / requests)))),
    Number(inDoubt) > 0 && headline("In doubt", amount(inDoubt)),
    unpriced > 0 && headline("Unpriced", span({ class: "num" }, count(unpriced))),
  );
}

/** Describes the change from an earlier amount, such as "+12%". Returns "" if the earlier amount is 0. */
function changeOf(now: string, before: string): string {
  if (Number(before) === 0) return "";
  const change = Number(now) / Number(before) - 1;
  return `${change >= 0 ? "+" : "−"}${percent(Math.abs(change))}`;
}

function tiles(data: OverviewJson, isAdmin: boolean): View {
  return section(
    { class: "tiles", "aria-label": "Summary" },
    tile({ name: "Today", figure: amount(data.today.cost_usd), note: [today(data), refusals(data)] }),
    tile({ name: "This month", figure: amount(data.month.cost_usd), note: month(data) }),
    isAdmin && tile({ name: "Balance", figure: balanceFigure(data.balance), note: balanceNote(data.balance) }),
    tile({ name: "Savings this month", figure: amount(data.month.saving_usd), note: saved(data) }),
  );
}

function today({ today: { cost_usd: cost, yesterday_by_now_usd: before } }: OverviewJson): Children {
  if (Number(before) === 0)
    return span(null, Number(cost) === 0 ? "Nothing spent yet" : "Nothing spent by this time yesterday");
  return span(
    { title: `${exactMoney(before)} by this time yesterday` },
    span({ class: "num delta" }, changeOf(cost, before)),
    " compared with this time yesterday",
  );
}

function refusals({ refused_today: refused }: OverviewJson): Children {
  if (refused === 0) return null;
  const text = `${counted(refused, "request")} refused`;
  return div(null, link(addressOf("requests", { status: "refused", span: "today" }), badge("bad", text)));
}

function month({ month: { cost_usd: cost, since, until }, forecast, now }: OverviewJson): Children {
  const passed = (Date.parse(now) - Date.parse(since)) / (Date.parse(until) - Date.parse(since));
  if (forecast === null) return span(null, `${percent(passed)} of the month has passed`);
  return [
    div(
      { class: "meter calm", "aria-hidden": "true" },
      span({ class: "spent", style: { width: `${shareOf(cost, forecast.month_end_usd) * 100}%` } }),
    ),
    span(
      { title: `${money(forecast.usd_per_hour)} an hour on average since ${instant(forecast.from, "moment")}` },
      amount(forecast.month_end_usd),
      " by the end of the month at this rate",
    ),
  ];
}

function balanceFigure(balance: BalanceJson | null): Children {
  if (balance === null) return muted("Unknown");
  if (balance.balance_usd !== null) return amount(balance.balance_usd);
  return balance.available_credits === null
    ? muted("Unknown")
    : span({ class: "num" }, `${shortCount(balance.available_credits)} credits`);
}

function balanceNote(balance: BalanceJson | null): Children {
  if (balance === null) return span(null, "No account record from the gateway");
  const age = balance.stale ? badge("warn", `as of ${ago(balance.fetched_at)}`) : null;
  if (balance.hours_left === null)
    return span(
      null,
      age,
      Number(balance.burn_usd_per_hour) === 0
        ? "Nothing spent in 24 hours"
        : `${money(balance.burn_usd_per_hour)} an hour`,
    );
  const tone = balance.hours_left < 24 ? "bad" : balance.hours_left < 72 ? "warn" : null;
  const text = `Lasts ${lasting(balance.hours_left)}`;
  return span(
    { title: `At ${money(balance.burn_usd_per_hour)} an hour, the mean of the last 24 hours` },
    tone === null ? text : badge(tone, text),
    " at the rate of the last 24 hours",
    age,
  );
}

function saved({ month: { saving_usd: saving, list_cost_usd: list } }: OverviewJson): Children {
  const share = Number(list) === 0 ? 0 : Number(saving) / Number(list);
  return span(null, span({ class: "num delta good" }, percent(share)), " below the list price of ", amount(list));
}

const spendersMax = 6;

function spenders(
  rows: readonly Spender[],
  total: string,
  what: "key" | "model",
  shown: Readonly<Record<string, string | null>>,
): View {
  if (rows.length === 0) return p({ class: "hint quiet" }, "No spend in this time.");
  const most = rows[0]?.cost_usd ?? total;
  return ol(
    { class: "spenders" },
    rows.slice(0, spendersMax).map((row) => {
      const name = row.name ?? (what === "key" ? "without a key" : "no model");
      return li(
        { key: name },
        div(
          { class: "spender-name" },
          row.name === null ? name : link(addressOf("requests", { ...shown, [what]: row.name }), name),
          what === "key" && muted(row.team ?? ""),
        ),
        div(
          { class: "spender-cost" },
          amount(row.cost_usd),
          span({ class: "muted num share-text" }, percent(shareOf(row.cost_usd, total))),
        ),
        shareBar(shareOf(row.cost_usd, most)),
      );
    }),
  );
}
