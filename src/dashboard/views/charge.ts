import { h } from "preact";
import { code, dd, div, dl, dt, h3, p, section, span, strong, td, th, tr, type Children, type View } from "../dom.ts";
import { count, duration, exactMoney, instant, percent } from "../format.ts";
import { useAnswer, useSource } from "../resource.ts";
import { dataTable } from "../table.ts";
import type { Charge, ChargeDetails, Item, PriceUsed, Usd } from "../types.ts";
import { amount, badge, Dialog, instantOf, loaded } from "../ui.ts";
import { doubtBadge, knownBadge, plainName, tagsOf, tokenName, upperFirst } from "./words.ts";

/** Shows one request with every digit of its cost. */
export function ChargeDrawer({ id, onClosed }: { readonly id: string; readonly onClosed: () => void }): View {
  return h(Dialog, { title: "Request", kind: "drawer", onClosed, body: () => h(Content, { id }) });
}

const reloadMs = 5000;

function Content({ id }: { readonly id: string }): Children {
  const charge = useAnswer<ChargeDetails>(`${useSource()}/charges/${encodeURIComponent(id)}`, reloadMs);
  return loaded(charge, 6, detailsOf);
}

function detailsOf(data: ChargeDetails): View {
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
    dataTable({
      caption: "Cost items",
      class: "plain items",
      rows: lines,
      keyOf: ({ tool, class: name, tier_from: from, cost_usd: usd }) => `${tool ?? name} ${from} ${usd}`,
      columns: [
        { head: "Item", unseen: true, rowHeader: true, cell: itemName },
        {
          head: "Tokens",
          class: "right",
          cellClass: "num",
          cell: ({ tokens, tool }) => (tokens === 0 ? "" : `${count(tokens)}${tool === null ? "" : " ×"}`),
        },
        { head: "Rate", class: "right", cellClass: "num", cell: rateOf },
        { head: "Cost", class: "right", cell: ({ cost_usd: usd }) => amount(usd, { exact: true }) },
      ],
      foot: [sum("Cost", cost), list !== null && sum("List price", list, "muted")],
    }),
  );
}

function sum(name: string, usd: Usd, style = ""): View {
  const value = td({ class: "right" }, amount(usd, { exact: true }));
  return tr({ key: name, class: style }, th({ scope: "row", colSpan: 3 }, name), value);
}

const lineNames: Record<string, string> = { minimum: "Minimum charge", request: "Request" };

function itemName({ tool, class: name, tier_from: from }: Item): string {
  const text = tool !== null ? upperFirst(plainName(tool)) : (lineNames[name] ?? tokenName(name));
  return from > 0 ? `${text} (from ${count(from)})` : text;
}

function rateOf({ usd_per_million: rate, list_usd_per_million: list }: Item): Children {
  if (rate === null) return "";
  const title = list === null ? "" : `List price ${exactMoney(list)} per 1M`;
  return span({ title }, exactMoney(rate), span({ class: "muted" }, " /1M"));
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
        span({ class: "muted" }, ` by ${each.correction?.by ?? "an admin"}`),
      ),
    ),
  );
}

/** Shows a value unless it is null. */
function ifKnown<T>(value: T | null, show: (value: T) => Children): Children {
  return value === null ? null : show(value);
}

function facts(charge: ChargeDetails): View {
  const tags = tagsOf(charge.tags);
  const entries: Record<string, Children> = {
    Key: ifKnown(charge.key, (key) => [key, ifKnown(charge.team, (team) => span({ class: "muted" }, ` ${team}`))]),
    Status: charge.status,
    "Served model": charge.served_model === charge.model ? null : charge.served_model,
    Duration: ifKnown(charge.duration_ms, duration),
    "First token": ifKnown(charge.first_token_ms, (ms) => `after ${duration(ms)}`),
    Held: ifKnown(charge.hold_usd, (usd) => amount(usd, { exact: true })),
    "Held for": heldFor(charge),
    Fitted: ifKnown(charge.fitted, (tokens) => `to its budget: at most ${count(tokens)} tokens`),
    "Output cap": ifKnown(charge.output_cap, (tokens) => `${count(tokens)} tokens`),
    Overage: Number(charge.overage_usd) > 0 && badge("warn", amount(charge.overage_usd, { exact: true })),
    Minimum: charge.minimum_applied && "applied",
    Usage: charge.clamped && "contradictory; the more expensive reading is charged",
    Doubts: charge.doubts.map((doubt) => span({ key: doubt, class: "tag" }, plainName(doubt))),
    "Service tier": charge.service_tier,
    "Tool calls": Object.entries(charge.tool_calls)
      .map(([tool, calls]) => `${count(calls)} × ${plainName(tool)}`)
      .join(", "),
    "Raw units": ifKnown(charge.units, (units) => `${units} ${charge.unit_type || "(no type stated)"}`),
    Delivered: ifKnown(charge.delivered, ({ input, output }) => `${count(input)} in, ${count(output)} out`),
    Reason: ifKnown(charge.reason, plainName),
    Retry: charge.retry > 0 && count(charge.retry),
    Group: charge.group,
    Price: ifKnown(charge.price, priceWords),
    Source: charge.price?.source,
    "Served price": ifKnown(charge.served_price, priceWords),
    Tags: tags,
    Request: code(null, charge.request_id),
    "Gateway request": ifKnown(charge.gateway_request_id, (id) => code(null, id)),
  };
  const isGiven = (value: Children) =>
    Array.isArray(value) ? value.length > 0 : value !== null && value !== undefined && value !== "" && value !== false;
  return dl(
    { class: "details" },
    Object.entries(entries)
      .filter(([, value]) => isGiven(value))
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

/** Describes the output tokens in the hold and what decided their number. Returns null if no output text is limited. */
function heldFor({ held_for: held }: ChargeDetails): string | null {
  if (held === null) return null;
  const by = deciders[held.by] ?? held.by;
  return held.output_tokens === null ? by : `${count(held.output_tokens)} output tokens, by ${by}`;
}

function priceWords({ from, fraction }: PriceUsed): string {
  const share = fraction === null ? "" : `, ${percent(Number(fraction))} of the official one`;
  return `in force since ${instant(from, "date", "UTC")}${share}`;
}
