import { h } from "preact";
import { useState } from "preact/hooks";
import { admin, ask } from "../api.ts";
import {
  button,
  caption,
  classes,
  div,
  h1,
  h3,
  header,
  input,
  label,
  li,
  ol,
  p,
  small,
  span,
  strong,
  table,
  tbody,
  td,
  th,
  thead,
  tr,
  type Children,
  type View,
} from "../dom.ts";
import { count, exactMoney, instant, percent } from "../format.ts";
import { icon } from "../icons.ts";
import { setQuery, useRoute } from "../location.ts";
import { useResource } from "../resource.ts";
import type { Price, PricedModel, PriceHistory, PriceList, Rates } from "../types.ts";
import { amount, badge, Dialog, empty, failure, waiting } from "../ui.ts";
import { tokenName } from "./words.ts";

/** Lists every model with its price in force. */
export function Prices(): View {
  const { query } = useRoute();
  const [wanted, setWanted] = useState("");
  const { data, fault, reload } = useResource<PriceList>((signal) => ask(`${admin}/prices`, { signal }), "prices", {
    everyMs: 60_000,
  });
  const opened = query.get("model");
  const search = label(
    { class: "filter" },
    span({ class: "unseen" }, "Find a model"),
    icon("search"),
    input({
      type: "search",
      placeholder: "Find a model",
      value: wanted,
      onInput: (event) => setWanted(event.currentTarget.value),
    }),
  );
  return div(
    { class: "view" },
    header(
      { class: "view-head" },
      div(null, h1(null, "Prices"), p({ class: "hint" }, "USD for a million tokens, or for another unit where stated")),
      search,
    ),
    fault !== null && failure({ fault, retry: reload }),
    data === null
      ? fault === null && waiting(8)
      : listed(
          data.models.filter((model) =>
            `${model.id} ${model.provider ?? ""} ${model.group ?? ""}`
              .toLowerCase()
              .includes(wanted.trim().toLowerCase()),
          ),
        ),
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
      p(
        { class: "hint" },
        "Prices come from files: ",
        strong(null, "farebox prices import"),
        " imports prices from other tables.",
      ),
    );
  return div(
    { class: "card list-card" },
    table(
      { class: "prices" },
      caption({ class: "unseen" }, "Prices in force"),
      thead(
        null,
        tr(
          null,
          th({ scope: "col" }, "Model"),
          ["Input", "Cached input", "Output"].map((text) =>
            th({ key: text, scope: "col", class: classes("right", text === "Cached input" && "wide-only") }, text),
          ),
          th({ scope: "col", class: "wide-only" }, "Group"),
          th({ scope: "col", class: "wide-only" }, "Since"),
        ),
      ),
      tbody(null, models.map(modelRow)),
    ),
  );
}

function modelRow({ id, provider, group, unit, price }: PricedModel): View {
  const open = () => setQuery({ model: id });
  const first = price?.tiers[0];
  const cell = (name: keyof Rates) =>
    td(
      { class: classes("right", name === "cached_input" && "wide-only") },
      price === null || first === undefined || price.per_request_usd !== null
        ? null
        : rateCell(name, first.gateway_usd_per_million, first.official_usd_per_million),
    );
  return tr(
    { key: id, class: "openable", onClick: open },
    th(
      { scope: "row" },
      button(
        {
          type: "button",
          class: "row-button",
          onClick: (event) => {
            event.stopPropagation();
            open();
          },
        },
        id,
      ),
      small({ class: "muted" }, provider ?? "", unit !== "token" && `, by the ${unit}`),
    ),
    price?.per_request_usd
      ? td(
          { class: "right", colSpan: 3 },
          amount(price.per_request_usd.gateway),
          span({ class: "muted" }, " a request"),
        )
      : price === null
        ? td({ class: "right", colSpan: 3 }, badge("warn", "no price"))
        : [cell("input"), cell("cached_input"), cell("output")],
    td(
      { class: "wide-only" },
      group,
      price?.fraction &&
        Number(price.fraction) !== 1 &&
        span({ class: "muted num" }, ` ${percent(Number(price.fraction))}`),
    ),
    td({ class: "wide-only muted" }, price === null ? "" : instant(price.from, "date", "UTC")),
  );
}

/** Shows the gateway's rate and a different official rate, struck through if that is higher. */
function rateCell(name: keyof Rates, charged: Rates, official: Rates): Children {
  const [rate, list] = [charged[name], official[name]];
  return [
    Number(rate) < Number(list) &&
      span({ class: "was", title: "official" }, span({ class: "unseen" }, "official "), exactMoney(list)),
    Number(rate) > Number(list) && span({ class: "list-rate" }, "official ", exactMoney(list)),
    span({ class: "num" }, exactMoney(rate)),
  ];
}

function History({ id }: { readonly id: string }): View {
  const { data, fault, reload } = useResource<PriceHistory>(
    (signal) => ask(`${admin}/prices/${encodeURIComponent(id)}/history`, { signal }),
    id,
  );
  if (data === null) return fault === null ? waiting(5) : failure({ fault, retry: reload });
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

function tierTable(
  {
    from_prompt_tokens: from,
    gateway_usd_per_million: charged,
    official_usd_per_million: official,
  }: Price["tiers"][number],
  several: boolean,
  mode: string,
): View {
  const { input, output } = charged;
  const shown = (Object.keys(charged) as (keyof Rates)[]).filter(
    (name) =>
      ["input", "cached_input", "output"].includes(name) || (charged[name] !== input && charged[name] !== output),
  );
  return table(
    { class: "plain", key: from },
    caption(
      { class: several ? "tier" : "unseen" },
      several ? `From ${count(from)} prompt tokens${mode === "marginal" ? ", for the tokens beyond" : ""}` : "Rates",
    ),
    thead(
      null,
      tr(
        null,
        th({ scope: "col" }, span({ class: "unseen" }, "Tokens")),
        th({ scope: "col", class: "right" }, "Gateway"),
        th({ scope: "col", class: "right" }, "Official"),
      ),
    ),
    tbody(
      null,
      shown.map((name) =>
        tr(
          { key: name },
          th({ scope: "row" }, tokenName(name)),
          td({ class: "right num" }, exactMoney(charged[name])),
          td({ class: "right num muted" }, exactMoney(official[name])),
        ),
      ),
    ),
  );
}
