import { h } from "preact";
import { code, div, h3, p, section, span, strong, td, th, tr, type Children, type View } from "../dom.ts";
import { count, duration, exactMoney, instant, percent } from "../format.ts";
import { useAnswer, useSource, useUser } from "../resource.ts";
import { dataTable, figures } from "../table.ts";
import type { ChargeJson, ChargeDetailsJson, Item, PriceUsed, Usd } from "../types.ts";
import { amount, badge, Dialog, factsOf, instantOf, loaded, muted } from "../ui.ts";
import {
  doubtBadge,
  keyLink,
  modelLink,
  sourceBadge,
  plainName,
  tagsOf,
  teamLink,
  tokenName,
  upperFirst,
} from "./labels.ts";

/** Shows one request with its exact cost. */
export function ChargeDrawer({ id, onClosed }: { readonly id: string; readonly onClosed: () => void }): View {
  return h(Dialog, { title: "Request", kind: "drawer", onClosed, body: () => h(Content, { id }) });
}

const reloadMs = 5000;

function Content({ id }: { readonly id: string }): Children {
  const { who } = useUser();
  const charge = useAnswer<ChargeDetailsJson>(`${useSource()}/charges/${encodeURIComponent(id)}`, reloadMs);
  return loaded(charge, 6, (data) => detailsOf(data, who.kind === "admin"));
}

function detailsOf(data: ChargeDetailsJson, isAdmin: boolean): View {
  return div(
    { class: "charge" },
    div(
      { class: "charge-head" },
      div(
        null,
        strong({ class: "charge-model" }, isAdmin ? modelLink(data.model) : data.model),
        muted(instantOf(data.time, "full")),
      ),
      div(
        { class: "figure" },
        data.cost_usd === null ? heldAmount(data) : amount(data.total_usd ?? data.cost_usd, { exact: true }),
      ),
    ),
    p({ class: "known-line" }, sourceBadge(data), doubtBadge(data), data.known),
    items(data),
    corrections(data.corrections),
    facts(data, isAdmin),
  );
}

function heldAmount({ state, hold_usd: hold }: ChargeDetailsJson): View | string {
  if (state === "pending" && hold !== null) return muted("≤ ", amount(hold));
  return state === "voided" ? muted("nothing") : amount(null);
}

function items({ items: lines, cost_usd: cost, list_cost_usd: list }: ChargeDetailsJson): View | null {
  if (lines.length === 0 || cost === null) return null;
  return div(
    { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Cost items" },
    dataTable({
      caption: "Cost items",
      class: "plain items",
      rows: lines,
      keyOf: ({ tool, model, class: name, tier_from: from, cost_usd: usd }) =>
        `${tool ?? name} ${model} ${from} ${usd}`,
      columns: [
        { head: "Item", unseen: true, rowHeader: true, cell: itemName },
        figures<Item>("Tokens", ({ tokens, tool }) =>
          tokens === 0 ? "" : `${count(tokens)}${tool === null ? "" : " ×"}`,
        ),
        figures("Rate", rateOf),
        { head: "Cost", class: "right", cell: ({ cost_usd: usd }) => amount(usd, { exact: true }) },
      ],
      foot: [sumRow("Cost", cost), list !== null && sumRow("List price", list, "muted")],
    }),
  );
}

function sumRow(name: string, usd: Usd, style = ""): View {
  const value = td({ class: "right" }, amount(usd, { exact: true }));
  return tr({ key: name, class: style }, th({ scope: "row", colSpan: 3 }, name), value);
}

const lineNames: Record<string, string> = { minimum: "Minimum charge", request: "Request" };

function itemName({ tool, model, class: name, tier_from: from }: Item): string {
  const text = tool !== null ? upperFirst(plainName(tool)) : (lineNames[name] ?? tokenName(name));
  const named = model === null ? text : `${text}, ${model}`;
  return from > 0 ? `${named} (from ${count(from)})` : named;
}

function rateOf({ usd_per_million: rate, list_usd_per_million: list }: Item): Children {
  if (rate === null) return "";
  const title = list === null ? "" : `List price ${exactMoney(list)} per 1M`;
  return span({ title }, exactMoney(rate), muted(" /1M"));
}

function corrections(made: readonly ChargeJson[]): View | null {
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
        muted(` by ${each.correction?.by ?? "an admin"}`),
      ),
    ),
  );
}

/** Shows a value unless it is null. */
function ifKnown<T>(value: T | null, show: (value: T) => Children): Children {
  return value === null ? null : show(value);
}

/** Shows the details of a charge. For an admin, the key, team and models are links to their pages. */
function facts(charge: ChargeDetailsJson, isAdmin: boolean): View {
  return factsOf({
    Key: ifKnown(charge.key, (key) => [
      isAdmin ? keyLink(key) : key,
      ifKnown(charge.team, (team) => (isAdmin ? [" ", teamLink(team, "link muted")] : muted(` ${team}`))),
    ]),
    Status: charge.status,
    "Served model":
      charge.served_model !== charge.model &&
      ifKnown(charge.served_model, (model) => (isAdmin ? modelLink(model) : model)),
    Duration: ifKnown(charge.duration_ms, duration),
    "First token": ifKnown(charge.first_token_ms, (ms) => `after ${duration(ms)}`),
    Held: ifKnown(charge.hold_usd, (usd) => amount(usd, { exact: true })),
    "Held for": heldFor(charge),
    Fitted: ifKnown(charge.fitted, (tokens) => `to its budget: at most ${count(tokens)} tokens`),
    "Output cap": ifKnown(charge.output_cap, (tokens) => `${count(tokens)} tokens`),
    Overage: Number(charge.overage_usd) > 0 && badge("warn", amount(charge.overage_usd, { exact: true })),
    Minimum: charge.minimum_applied && "applied",
    Usage: charge.clamped && "contradictory; the more expensive interpretation is charged",
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
    Price: ifKnown(charge.price, describePrice),
    "Price source": charge.price?.source,
    "Served price": ifKnown(charge.served_price, describePrice),
    User: charge.user,
    Tags: tagsOf(charge.tags),
    Labels: tagsOf(charge.labels),
    Request: code(null, charge.request_id),
    "Gateway request": ifKnown(charge.gateway_request_id, (id) => code(null, id)),
  });
}

const deciders: Record<string, string> = {
  output_cap: "the output cap",
  fitted: "the maximum that fits its budget",
  slice: "the first slice of a stream",
  default: "the endpoint’s default",
  model: "the model’s maximum",
  request_price: "the price of a request",
};

/**
 * Describes how many output tokens the hold covers, and which field or bound decided the number. Returns null if
 * neither is known.
 */
function heldFor({ held_for: held }: ChargeDetailsJson): string | null {
  if (held === null) return null;
  const by = deciders[held.by] ?? held.by;
  return held.output_tokens === null ? by : `${count(held.output_tokens)} output tokens (${by})`;
}

function describePrice({ from, fraction }: PriceUsed): string {
  const share = fraction === null ? "" : `, ${percent(Number(fraction))} of the official price`;
  return `in force since ${instant(from, "date", "UTC")}${share}`;
}
