import { h } from "preact";
import { useState } from "preact/hooks";
import { admin } from "../api.ts";
import { classes, div, h3, li, ol, p, small, span, strong, type Children, type View } from "../dom.ts";
import { count, exactMoney, instant, percent } from "../format.ts";
import { setQuery, useRoute } from "../location.ts";
import { useAnswer } from "../resource.ts";
import { dataTable, openButton, type Column } from "../table.ts";
import type { Price, PricedModel, PriceHistory, PriceList, Rates } from "../types.ts";
import { amount, badge, Dialog, empty, loaded, page, searchBox } from "../ui.ts";
import { tokenName } from "./words.ts";

/** Shows all models with their current prices. */
export function Prices(): View {
  const { query } = useRoute();
  const [wanted, setWanted] = useState("");
  const opened = query.get("model");
  const text = wanted.trim().toLowerCase();
  const matches = ({ id, provider, group }: PricedModel) =>
    `${id} ${provider ?? ""} ${group ?? ""}`.toLowerCase().includes(text);
  return page(
    {
      title: "Prices",
      hint: "USD for a million tokens, or for another unit where stated",
      side: searchBox("Find a model", wanted, setWanted),
      resource: useAnswer<PriceList>(`${admin}/prices`, 60_000),
      lines: 8,
      content: ({ models }) => listed(models.filter(matches)),
    },
    opened !== null &&
      h(Dialog, {
        key: opened,
        title: opened,
        kind: "drawer",
        onClosed: () => setQuery({ model: null }),
        body: () => h(History, { id: opened }),
      }),
  );
}

function listed(models: readonly PricedModel[]): View {
  if (models.length === 0)
    return empty(
      "No matching models",
      "Prices come from files: ",
      strong(null, "farebox prices import"),
      " imports prices from other tables.",
    );
  const open = ({ id }: PricedModel) => setQuery({ model: id });
  return div(
    { class: "card list-card" },
    dataTable({
      caption: "Prices in force",
      class: "prices",
      rows: models,
      keyOf: ({ id }) => id,
      onOpen: open,
      columns: [
        {
          head: "Model",
          rowHeader: true,
          cell: (model) => [
            openButton(() => open(model), model.id),
            small({ class: "muted" }, model.provider ?? "", model.unit !== "token" && `, by the ${model.unit}`),
          ],
        },
        // A model without rates has a single cell that spans the three columns and says so.
        { ...rateColumn("Input", "input", "right"), spanOf: (model) => (hasRates(model) ? 1 : 3) },
        { ...rateColumn("Cached input", "cached_input", "right wide-only"), spanOf: spanOfRate },
        { ...rateColumn("Output", "output", "right"), spanOf: spanOfRate },
        { head: "Group", class: "wide-only", cell: groupOf },
        {
          head: "Since",
          class: "wide-only",
          cellClass: "muted",
          cell: ({ price }) => (price === null ? "" : instant(price.from, "date", "UTC")),
        },
      ],
    }),
  );
}

function hasRates({ price }: PricedModel): boolean {
  return price !== null && price.per_request_usd === null;
}

function spanOfRate(model: PricedModel): number {
  return hasRates(model) ? 1 : 0;
}

function rateColumn(head: string, name: keyof Rates, style: string): Column<PricedModel> {
  const cell = ({ price }: PricedModel): Children => {
    if (price === null) return badge("warn", "no price");
    if (price.per_request_usd !== null)
      return [amount(price.per_request_usd.gateway), span({ class: "muted" }, " a request")];
    const [first] = price.tiers;
    return first && rateCell(name, first.gateway_usd_per_million, first.official_usd_per_million);
  };
  return { head, class: style, cell };
}

function groupOf({ group, price }: PricedModel): Children {
  const fraction = Number(price?.fraction ?? 1);
  return [group, fraction !== 1 && span({ class: "muted num" }, ` ${percent(fraction)}`)];
}

/** Shows the gateway's rate, and the official rate if it differs. A higher official rate is struck through. */
function rateCell(name: keyof Rates, charged: Rates, official: Rates): Children {
  const [rate, list] = [charged[name], official[name]];
  return [
    Number(rate) < Number(list) &&
      span({ class: "was", title: "official" }, span({ class: "unseen" }, "official "), exactMoney(list)),
    Number(rate) > Number(list) && span({ class: "list-rate" }, "official ", exactMoney(list)),
    span({ class: "num" }, exactMoney(rate)),
  ];
}

function History({ id }: { readonly id: string }): Children {
  const history = useAnswer<PriceHistory>(`${admin}/prices/${encodeURIComponent(id)}/history`);
  return loaded(history, 5, historyOf);
}

function historyOf(data: PriceHistory): View {
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
              entry.starts_at === null ? "No start date" : `Since ${instant(entry.starts_at, "date", "UTC")}`,
            ),
            entry.in_force && badge("good", "in force"),
            entry.group !== null && span({ class: "muted" }, entry.group),
          ),
          entry.price === null ? p({ class: "hint" }, "No price") : priceDetails(entry.price),
        ),
      ),
    ),
  );
}

function priceDetails(price: Price): View {
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
      p({ key: tool }, `${tool}: `, amount(gateway_usd), " a call, ", amount(official_usd), " officially"),
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

type Tier = Price["tiers"][number];

function tierTable(tier: Tier, several: boolean, mode: string): View {
  const { from_prompt_tokens: from, gateway_usd_per_million: charged, official_usd_per_million: official } = tier;
  const { input, output } = charged;
  const beyond = mode === "marginal" ? ", for the tokens beyond" : "";
  return dataTable({
    key: from,
    caption: several ? `From ${count(from)} prompt tokens${beyond}` : "Rates",
    captionClass: several ? "tier" : "unseen",
    class: "plain",
    rows: (Object.keys(charged) as (keyof Rates)[]).filter(
      (name) =>
        ["input", "cached_input", "output"].includes(name) || (charged[name] !== input && charged[name] !== output),
    ),
    keyOf: (name) => name,
    columns: [
      { head: "Tokens", unseen: true, rowHeader: true, cell: tokenName },
      { head: "Gateway", class: "right", cellClass: "num", cell: (name) => exactMoney(charged[name]) },
      { head: "Official", class: "right", cellClass: "num muted", cell: (name) => exactMoney(official[name]) },
    ],
  });
}
