import { h } from "preact";
import { admin, ask, own } from "../api.ts";
import {
  caption,
  code,
  dd,
  div,
  dl,
  dt,
  h3,
  p,
  section,
  span,
  strong,
  table,
  tbody,
  td,
  tfoot,
  th,
  thead,
  tr,
  type Children,
  type View,
} from "../dom.ts";
import { count, duration, exactMoney, instant, percent } from "../format.ts";
import { useResource, useVisit } from "../resource.ts";
import type { Charge, ChargeDetails, Item, PriceUsed } from "../types.ts";
import { amount, badge, Dialog, failure, instantOf, waiting } from "../ui.ts";
import { doubtBadge, knownBadge, plainName, tokenName, upperFirst } from "./words.ts";

/** Shows one request with every digit of its cost. */
export function ChargeDrawer({ id, onClosed }: { readonly id: string; readonly onClosed: () => void }): View {
  return h(Dialog, { title: "Request", kind: "drawer", onClosed, body: () => h(Content, { id }) });
}

const pendingMs = 1000;

function Content({ id }: { readonly id: string }): View {
  const { who } = useVisit();
  const source = who.kind === "admin" ? admin : own;
  const { data, fault, reload } = useResource<ChargeDetails>(
    (signal) => ask(`${source}/charges/${encodeURIComponent(id)}`, { signal }),
    id,
    {
      everyMs: pendingMs * 5,
    },
  );
  if (data === null) return fault === null ? waiting(6) : failure({ fault, retry: reload });
  return div(
    { class: "charge" },
    div(
      { class: "charge-head" },
      div(null, strong({ class: "charge-model" }, data.model), span({ class: "muted" }, instantOf(data.time, "full"))),
      div(
        { class: "figure" },
        data.cost_usd === null ? held(data) : amount(data.total_usd ?? data.cost_usd, { exact: true }),
      ),
    ),
    p({ class: "known-line" }, knownBadge(data), doubtBadge(data), data.known),
    items(data),
    corrections(data.corrections),
    facts(data),
  );
}

function held({ state, hold_usd: hold }: ChargeDetails): View | string {
  if (state === "pending" && hold !== null) return span({ class: "muted" }, "≤ ", amount(hold));
  return state === "voided" ? span({ class: "muted" }, "nothing") : amount(null);
}

function items({ items: lines, cost_usd: cost, list_cost_usd: list }: ChargeDetails): View | null {
  if (lines.length === 0 || cost === null) return null;
  return div(
    { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Cost items" },
    table(
      { class: "plain items" },
      caption({ class: "unseen" }, "Cost items"),
      thead(
        null,
        tr(
          null,
          ["", "Tokens", "Rate", "Cost"].map((text, index) =>
            th(
              { key: text, scope: "col", class: index === 0 ? "" : "right" },
              index === 0 ? span({ class: "unseen" }, "Item") : text,
            ),
          ),
        ),
      ),
      tbody(null, lines.map(itemRow)),
      tfoot(
        null,
        tr(null, th({ scope: "row", colSpan: 3 }, "Cost"), td({ class: "right" }, amount(cost, { exact: true }))),
        list !== null &&
          tr(
            { class: "muted" },
            th({ scope: "row", colSpan: 3 }, "List price"),
            td({ class: "right" }, amount(list, { exact: true })),
          ),
      ),
    ),
  );
}

const lineNames: Record<string, string> = { minimum: "Minimum charge", request: "Request" };

function itemRow(item: Item): View {
  const name = item.tool !== null ? upperFirst(plainName(item.tool)) : (lineNames[item.class] ?? tokenName(item.class));
  const tier = item.tier_from > 0 ? ` (from ${count(item.tier_from)})` : "";
  const rate = item.usd_per_million === null ? "" : exactMoney(item.usd_per_million);
  return tr(
    { key: `${item.tool ?? item.class} ${item.tier_from} ${item.cost_usd}` },
    th({ scope: "row" }, name, tier),
    td({ class: "right num" }, item.tokens === 0 ? "" : `${count(item.tokens)}${item.tool === null ? "" : " ×"}`),
    td(
      {
        class: "right num",
        title: item.list_usd_per_million === null ? "" : `List price ${exactMoney(item.list_usd_per_million)} per 1M`,
      },
      rate,
      rate !== "" && span({ class: "muted" }, " /1M"),
    ),
    td({ class: "right" }, amount(item.cost_usd, { exact: true })),
  );
}

function corrections(made: readonly Charge[]): View | null {
  if (made.length === 0) return null;
  return section(
    null,
    h3(null, "Corrections"),
    made.map((each) =>
      p(
        { key: each.request_id },
        amount(each.cost_usd, { exact: true }),
        " ",
        each.correction?.why ?? "",
        span({ class: "muted" }, ` by ${each.correction?.by ?? "somebody"}`),
      ),
    ),
  );
}

function facts(charge: ChargeDetails): View {
  const { price, served_price: served } = charge;
  const entries: [string, Children][] = [
    [
      "Key",
      charge.key === null ? null : [charge.key, charge.team !== null && span({ class: "muted" }, ` ${charge.team}`)],
    ],
    ["Status", charge.status],
    ["Served model", charge.served_model === charge.model ? null : charge.served_model],
    ["Duration", charge.duration_ms === null ? null : duration(charge.duration_ms)],
    ["First token", charge.first_token_ms === null ? null : `after ${duration(charge.first_token_ms)}`],
    ["Held", charge.hold_usd === null ? null : amount(charge.hold_usd, { exact: true })],
    ["Held for", heldFor(charge)],
    ["Fitted", charge.fitted === null ? null : `to its budget: at most ${count(charge.fitted)} tokens`],
    ["Output cap", charge.output_cap === null ? null : `${count(charge.output_cap)} tokens`],
    ["Overage", Number(charge.overage_usd) === 0 ? null : badge("warn", amount(charge.overage_usd, { exact: true }))],
    ["Minimum", charge.minimum_applied ? "applied" : null],
    ["Usage", charge.clamped ? "contradictory; the more expensive reading is charged" : null],
    [
      "Doubts",
      charge.doubts.length === 0
        ? null
        : charge.doubts.map((doubt) => span({ key: doubt, class: "tag" }, plainName(doubt))),
    ],
    ["Service tier", charge.service_tier],
    [
      "Tool calls",
      Object.entries(charge.tool_calls)
        .map(([tool, calls]) => `${count(calls)} × ${plainName(tool)}`)
        .join(", "),
    ],
    [
      "Raw units",
      charge.units === null
        ? null
        : `${charge.units} ${charge.unit_type === "" ? "(no type stated)" : charge.unit_type}`,
    ],
    [
      "Delivered",
      charge.delivered === null ? null : `${count(charge.delivered.input)} in, ${count(charge.delivered.output)} out`,
    ],
    ["Reason", charge.reason === null ? null : plainName(charge.reason)],
    ["Retry", charge.retry === 0 ? null : count(charge.retry)],
    ["Group", charge.group],
    ["Price", price === null ? null : priceWords(price)],
    ["Source", price?.source],
    ["Served price", served === null ? null : priceWords(served)],
    [
      "Tags",
      Object.entries(charge.tags).length === 0
        ? null
        : Object.entries(charge.tags).map(([name, value]) => span({ key: name, class: "tag" }, `${name}: ${value}`)),
    ],
    ["Request", code(null, charge.request_id)],
    ["Gateway request", charge.gateway_request_id === null ? null : code(null, charge.gateway_request_id)],
  ];
  return dl(
    { class: "details" },
    entries
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => div({ key: name }, dt(null, name), dd(null, value))),
  );
}

const deciders: Record<string, string> = {
  output_cap: "the output cap",
  fitted: "what fits its budget",
  slice: "the first slice of a stream",
  default: "the endpoint’s default",
  model: "the model’s maximum",
  request_price: "the price of a request",
};

/** Output tokens in the hold and the field or bound that decided them; null if no text is limited. */
function heldFor({ held_for: held }: ChargeDetails): string | null {
  if (held === null) return null;
  const by = deciders[held.by] ?? held.by;
  return held.output_tokens === null ? by : `${count(held.output_tokens)} output tokens, by ${by}`;
}

function priceWords({ from, fraction }: PriceUsed): string {
  const share = fraction === null ? "" : `, ${percent(Number(fraction))} of the official one`;
  return `in force since ${instant(from, "date", "UTC")}${share}`;
}
