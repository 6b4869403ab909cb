import { h } from "preact";
import { useMemo } from "preact/hooks";
import { adminBase } from "../api.ts";
import { classes, div, h3, li, ol, p, small, span, strong, type Children, type View } from "../dom.ts";
import { count, exactMoney, instant, percent, shortCount } from "../format.ts";
import { listView, useList } from "../list.ts";
import { addressOf, goTo, pathOf } from "../location.ts";
import { useAnswer, useMayEdit } from "../resource.ts";
import { dataTable, figures, type Column } from "../table.ts";
import type {
  ListedModelJson,
  ModelDetailsJson,
  PriceJson,
  PricedModelJson,
  PriceHistoryJson,
  PriceListJson,
  RatesJson,
} from "../types.ts";
import { amount, badge, Card, empty, failure, link, loaded, muted, page, view } from "../ui.ts";
import { budgetsPart } from "./budgets.ts";
import { useDialogs } from "./forms.ts";
import { lastUsedColumn, spentColumn } from "./keys.ts";
import { plainName, tokenName, upperFirst } from "./labels.ts";
import { RecentRequests, Refused, SpendCard, useSubject } from "./subject.ts";

/** Model that was requested or is priced. `entry` contains its price, and is null for a model without a price. */
type Row = ListedModelJson & { readonly name: string; readonly entry: PricedModelJson | null };

/** Lists the models that were requested or are priced, with their use and their current prices. */
export function Models(): View {
  const list = useList<ListedModelJson>({ path: `${adminBase}/models`, field: "models", sort: "spent", order: "desc" });
  const prices = useAnswer<PriceListJson>(`${adminBase}/prices`, 60_000);
  const entries = useMemo(() => new Map(prices.data?.models.map((each) => [each.id, each])), [prices.data]);
  const rows =
    list.data?.rows.map((row) => ({
      ...row,
      name: row.model,
      entry: entries.get(row.priced_as ?? row.model) ?? null,
    })) ?? null;
  return view(
    {
      title: "Models",
      hint: "Prices in USD for a million tokens, or for a million of another unit if one is stated",
    },
    prices.fault !== null && failure(prices.fault, prices.reload),
    listView<Row>({
      list: { ...list, data: list.data && rows && { ...list.data, rows } },
      search: "Find a model",
      whenEmpty: empty(
        "No models",
        "Prices come from files: ",
        strong(null, "farebox prices import"),
        " imports prices from other tables.",
      ),
      caption: "Models and prices in force",
      class: "keys prices",
      keyOf: ({ model }) => model,
      onOpen: ({ model }) => goTo(addressOf(["models", model])),
      columns: [
        {
          head: "Model",
          sort: "name",
          rowHeader: true,
          cell: ({ model, entry, group }) => [
            link(addressOf(["models", model]), model, "link row-open"),
            small(
              { class: "muted" },
              [entry?.provider, group].filter(Boolean).join(" · "),
              entry !== null && entry.unit !== "token" && `, by the ${entry.unit}`,
            ),
          ],
        },
        rateColumn("Input", "input", "right rate-in"),
        rateColumn("Cached input", "cached_input", "right wide-only"),
        rateColumn("Output", "output", "right rate-out"),
        {
          ...spentColumn,
          // Requests without a price have no known cost, which is not a cost of 0.
          cell: ({ priced, usage: { spent_usd: spent } }) => amount(!priced && Number(spent) === 0 ? null : spent),
        },
        figures("Requests", ({ usage }) => shortCount(usage.requests), { sort: "requests", class: "right wide-only" }),
        { ...lastUsedColumn, class: "right wide-only widest-only" },
      ],
    }),
  );
}

/** Shows one model: its spend, the budgets on it, requests, refusals and prices. */
export function ModelPage({ name }: { readonly name: string }): View {
  const resource = useAnswer<ModelDetailsJson>(`${adminBase}/models/${pathOf(name)}`, 10_000);
  const { subject, refused, spend } = useSubject({ kind: "model", name });
  const mayEdit = useMayEdit();
  const { show, dialog } = useDialogs(resource.reload);
  const content = ({ usage, priced, budgets }: ModelDetailsJson) =>
    div(
      { class: "stack" },
      h(Refused, { subject, refused }),
      h(SpendCard, { subject, spend, usage }),
      budgetsPart({
        budgets,
        scope: `model:${name}`,
        show: mayEdit ? show : null,
        whenEmpty: empty("No budget for this model", "Budgets of keys, teams or all requests may still apply."),
      }),
      h(RecentRequests, { subject }),
      priced && h(Card, { title: "Prices" }, h(History, { id: name })),
    );
  const head = {
    title: name,
    back: link(addressOf("models"), "Models"),
    side: resource.data !== null && !resource.data.priced && badge("warn", "no price"),
    resource,
    lines: 6,
    content,
  };
  return page(head, dialog);
}

function rateColumn(head: string, name: keyof RatesJson, className: string): Column<Row> {
  const cell = ({ priced, entry }: Row): Children => {
    const price = entry?.price ?? null;
    // The first rate column also shows a price per request or a missing price.
    const isFirst = name === "input";
    if (price === null) return isFirst && !priced && badge("warn", "no price");
    if (price.per_request_usd !== null) return isFirst && [amount(price.per_request_usd.gateway), muted(" a request")];
    const [tier] = price.tiers;
    return tier && rateCell(name, tier.gateway_usd_per_million, tier.official_usd_per_million);
  };
  return { head, class: className, cell };
}

/** Shows the gateway's rate, and the official rate if it differs. A higher official rate is struck through. */
function rateCell(name: keyof RatesJson, charged: RatesJson, official: RatesJson): Children {
  const [rate, list] = [charged[name], official[name]];
  return [
    Number(rate) < Number(list) &&
      span({ class: "was", title: "official" }, span({ class: "unseen" }, "official "), exactMoney(list)),
    Number(rate) > Number(list) && span({ class: "list-rate" }, "official ", exactMoney(list)),
    span({ class: "num" }, exactMoney(rate)),
  ];
}

function History({ id }: { readonly id: string }): Children {
  const history = useAnswer<PriceHistoryJson>(`${adminBase}/prices/${pathOf(id)}/history`);
  return loaded(history, 5, historyOf);
}

function historyOf(data: PriceHistoryJson): View {
  return div(
    { class: "stack" },
    data.aliases.length > 0 && p({ class: "hint" }, "Aliases: ", data.aliases.join(", ")),
    ol(
      { class: "history" },
      data.entries.map((entry, index) =>
        li(
          { key: `${entry.starts_at} ${index}`, class: classes(entry.in_force && "in-force") },
          div(
            { class: "history-head" },
            strong(
              null,
              entry.starts_at === null
                ? "No start date"
                : `${Date.parse(entry.starts_at) > Date.now() ? "From" : "Since"} ${instant(entry.starts_at, "date", "UTC")}`,
            ),
            entry.in_force && badge("good", "in force"),
            entry.group !== null && muted(entry.group),
          ),
          entry.price === null ? p({ class: "hint" }, "No price") : priceDetails(entry.price),
        ),
      ),
    ),
  );
}

function priceDetails(price: PriceJson): View {
  const { per_request_usd: flat, tiers, minimum, fraction, source, service_tiers, fees } = price;
  return div(
    null,
    flat !== null
      ? p(null, amount(flat.gateway), " a request, ", amount(flat.official), " officially")
      : tiers.map((tier) => tierTable(tier, tiers.length > 1, price.tier_mode)),
    service_tiers.map(({ service_tier: name, tiers: own }) =>
      div(
        { key: name },
        h3(null, `Service tier ${name}`),
        own.map((tier) => tierTable(tier, own.length > 1, price.tier_mode)),
      ),
    ),
    fees.map(({ tool, gateway_usd, official_usd }) =>
      p(
        { key: tool },
        `${upperFirst(plainName(tool))}: `,
        amount(gateway_usd),
        " a call, ",
        amount(official_usd),
        " officially",
      ),
    ),
    p(
      { class: "hint" },
      fraction !== null && `${percent(Number(fraction))} of the official rates. `,
      minimum.tokens > 0 && `At least ${count(minimum.tokens)} tokens a request. `,
      Number(minimum.usd) > 0 && `At least ${exactMoney(minimum.usd)} a request. `,
      `Source: ${source}.`,
    ),
  );
}

type Tier = PriceJson["tiers"][number];

function tierTable(tier: Tier, several: boolean, mode: string): View {
  const { from_prompt_tokens: from, gateway_usd_per_million: charged, official_usd_per_million: official } = tier;
  const { input, output } = charged;
  const beyond = mode === "marginal" && from > 0 ? ", for the tokens from there on and the whole output" : "";
  return dataTable({
    key: from,
    caption: several ? `From ${count(from)} prompt tokens${beyond}` : "Rates",
    captionClass: several ? "tier" : "unseen",
    class: "plain",
    // Other classes with the rate of input or output need no rows of their own.
    rows: (Object.keys(charged) as (keyof RatesJson)[]).filter(
      (name) =>
        ["input", "cached_input", "output"].includes(name) || (charged[name] !== input && charged[name] !== output),
    ),
    keyOf: (name) => name,
    columns: [
      { head: "Tokens", unseen: true, rowHeader: true, cell: tokenName },
      figures<keyof RatesJson>("Gateway", (name) => exactMoney(charged[name])),
      figures<keyof RatesJson>("Official", (name) => exactMoney(official[name]), { cellClass: "num muted" }),
    ],
  });
}
