import { h } from "preact";
import { SpendChart } from "../chart.ts";
import { div, li, ol, p, section, span, strong, type Children, type View } from "../dom.ts";
import { ago, count, exactMoney, instant, lasting, money, percent, shareOf, shortCount } from "../format.ts";
import { addressOf, setQuery, useRoute } from "../location.ts";
import { useAnswer, useSource, useVisit } from "../resource.ts";
import {
  groupings,
  spans,
  type Balance,
  type Grouping,
  type Overview as Figures,
  type SpanName,
  type Spender,
} from "../types.ts";
import { amount, badge, Card, link, page, segmented, shareBar, tile } from "../ui.ts";
import { FirstSteps } from "./first-steps.ts";

const groupingNames: Record<Grouping, string> = { model: "Model", key: "Key", team: "Team", group: "Group" };
const spanNames: Record<SpanName, string> = { "24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days" };

function oneOf<T extends string>(known: readonly T[], text: string | null, otherwise: T): T {
  return known.find((each) => each === text) ?? otherwise;
}

export function Overview(): View {
  const { who } = useVisit();
  const { query } = useRoute();
  const span = oneOf(spans, query.get("span"), "7d");
  const offered = who.kind === "admin" ? groupings : (["model", "group"] as const);
  const by = oneOf<Grouping>(offered, query.get("by"), "model");
  const resource = useAnswer<Figures>(`${useSource()}/overview`, 15_000, { span, by });
  const { data } = resource;
  const chooseSpan = segmented({
    label: "Time span",
    value: span,
    options: spans.map((value) => ({ value, text: value })),
    onChoose: (value) => setQuery({ span: value }),
  });
  return page({
    title: "Overview",
    side: data !== null && !data.empty.charges && chooseSpan,
    resource,
    lines: 6,
    content: (data) =>
      data.empty.charges
        ? h(FirstSteps, { hasKeys: !data.empty.keys })
        : h(Content, { data, by, offered, whole: who.kind === "admin" }),
  });
}

interface ContentProps {
  readonly data: Figures;
  readonly by: Grouping;
  readonly offered: readonly Grouping[];
  /** True for an admin, whose overview covers every key. */
  readonly whole: boolean;
}

function Content({ data, by, offered, whole }: ContentProps): View {
  const grouping = segmented({
    label: "Split by",
    value: by,
    options: offered.map((value) => ({ value, text: groupingNames[value] })),
    onChoose: (value) => setQuery({ by: value }),
  });
  const { span } = data;
  return div(
    { class: "stack" },
    tiles(data, whole),
    h(
      Card,
      { title: "Spend over time", actions: grouping, class: "chart-card" },
      headlines(span),
      span.requests === 0
        ? p({ class: "hint quiet" }, `No requests in the last ${spanNames[span.name]}.`)
        : h(SpendChart, { series: data.series, total: span.cost_usd, timeZone: data.time_zone }),
    ),
    div(
      { class: "columns" },
      whole && h(Card, { title: "Top keys" }, spenders(data.top.keys, span.cost_usd, "key")),
      h(Card, { title: "Top models" }, spenders(data.top.models, span.cost_usd, "model")),
    ),
  );
}

/** Shows the totals of the time span above the chart. */
function headlines({
  name,
  cost_usd: cost,
  list_cost_usd: list,
  requests,
  unpriced_requests: unpriced,
  cost_in_doubt_usd: inDoubt,
}: Figures["span"]): View {
  return div(
    { class: "headlines" },
    headline(`Last ${spanNames[name]}`, amount(cost)),
    headline("List price", amount(list)),
    headline("Requests", span({ class: "num", title: count(requests) }, shortCount(requests))),
    requests > 0 && headline("Average cost", span({ class: "num" }, money(String(Number(cost) / requests)))),
    Number(inDoubt) > 0 && headline("In doubt", amount(inDoubt)),
    unpriced > 0 && headline("Unpriced", span({ class: "num" }, count(unpriced))),
  );
}

function headline(name: string, figure: Children): View {
  return div({ class: "headline", key: name }, span({ class: "muted" }, name), strong(null, figure));
}

function tiles(data: Figures, whole: boolean): View {
  return section(
    { class: "tiles", "aria-label": "Summary" },
    tile({ name: "Today", figure: amount(data.today.cost_usd), note: today(data) }),
    tile({ name: "This month", figure: amount(data.month.cost_usd), note: month(data) }),
    whole && tile({ name: "Balance", figure: balanceFigure(data.balance), note: balanceNote(data.balance) }),
    tile({ name: "Savings this month", figure: amount(data.month.saving_usd), note: saved(data) }),
  );
}

function today({ today: { cost_usd: cost, yesterday_by_now_usd: before } }: Figures): Children {
  if (Number(before) === 0)
    return span(null, Number(cost) === 0 ? "Nothing spent yet" : "Nothing spent yesterday by now");
  const change = Number(cost) / Number(before) - 1;
  const text = `${change >= 0 ? "+" : "−"}${percent(Math.abs(change))}`;
  return span(
    { title: `${exactMoney(before)} by this time yesterday` },
    span({ class: "num delta" }, text),
    " against yesterday by now",
  );
}

function month({ month: { cost_usd: cost, since, until }, forecast, now }: Figures): Children {
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

function balanceFigure(balance: Balance | null): Children {
  if (balance === null) return span({ class: "muted" }, "Unknown");
  if (balance.balance_usd !== null) return amount(balance.balance_usd);
  return balance.available_credits === null
    ? span({ class: "muted" }, "Unknown")
    : span({ class: "num" }, `${shortCount(balance.available_credits)} credits`);
}

function balanceNote(balance: Balance | null): Children {
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

function saved({ month: { saving_usd: saving, list_cost_usd: list } }: Figures): Children {
  const share = Number(list) === 0 ? 0 : Number(saving) / Number(list);
  return span(null, span({ class: "num delta good" }, percent(share)), " below the list price of ", amount(list));
}

const spendersMax = 6;

function spenders(rows: readonly Spender[], total: string, what: "key" | "model"): View {
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
          row.name === null ? name : link(addressOf("requests", { [what]: row.name }), name),
          what === "key" && span({ class: "muted" }, row.team ?? ""),
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
