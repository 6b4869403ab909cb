import { h } from "preact";
import { details, div, input, label, span, summary, type View } from "../dom.ts";
import { icon } from "../icons.ts";
import { SearchField, sortChoice, SuggestedNames, useSettled, useTyped } from "../list.ts";
import { oneOf, setQuery, useRoute } from "../location.ts";
import { RangeControl } from "../range.ts";
import type { Order } from "../table.ts";
import type { ChargeJson } from "../types.ts";
import { actionButton, selectBox, suggestions } from "../ui.ts";
import { plainName } from "./labels.ts";
import { chargeFilters, filterNames, listNames } from "./request-rows.ts";

const statusNames = {
  "": "All statuses",
  pending: "Running",
  posted: "Charged",
  voided: "Not charged",
  refused: "Refused",
  "4xx": "Client errors (4xx)",
  "5xx": "Server errors (5xx)",
};
const sourceNames: Record<NonNullable<ChargeJson["source"]>, string> = {
  reported: "Reported",
  counted: "Counted",
  partial: "Partial",
  assumed: "Assumed",
};
const doubtNames: Record<ChargeJson["doubts"][number], string> = {
  unknown_output: "Unknown output",
  unknown_field: "Unknown field",
  served_model: "Served model",
  service_tier: "Service tier",
  hosted_tool: "Hosted tool",
  usage_contradicts: "Contradictory usage",
  usage_unknown_class: "Unknown class of tokens",
  time_based: "Run time of a model",
  task_consumption: "Unknown consumption of a task",
  image_bound: "Bound for images and files",
};

/** List of requests that the address of the page selects. */
export interface ListedRequests {
  readonly query: URLSearchParams;
  /** True for an admin, who sees the requests of all keys. */
  readonly isAdmin: boolean;
  /** True if the list has only refused requests. */
  readonly onlyRefused: boolean;
}

/** Returns the sort order that the address of the page states. Choosing the current column again reverses the order. */
export function orderOf(query: URLSearchParams): Order {
  const sort = oneOf(["time", "cost", "count", "needed"], query.get("sort"), "time");
  const order = query.get("order") === "asc" ? "asc" : "desc";
  const choose = (next: string) => {
    const other = next === sort && order === "desc" ? "asc" : null;
    setQuery({ sort: next === "time" && other === null ? null : next, order: other });
  };
  return { sort, order, choose };
}

interface FilterProps extends ListedRequests {
  /** Models to suggest to the user of a key, who cannot read the list of models. */
  readonly models: readonly string[];
}

export function Filters({ query, isAdmin, onlyRefused, models }: FilterProps): View {
  const without = query.get("without");
  const select = (name: string, title: string, first: string, options: Readonly<Record<string, string>>) =>
    selectBox({
      name: title,
      value: query.get(name) ?? "",
      options: [["", first], ...Object.entries(options)],
      onChoose: (value) => setQuery({ [name]: value }),
    });
  return div(
    { class: "filters", role: "search", "aria-label": "Filters" },
    h(SearchField, { name: onlyRefused ? "Find a refusal" : "Request id", param: "q" }),
    isAdmin && h(NameFilter, { name: "Key", param: "key", list: "keys" }),
    isAdmin && h(NameFilter, { name: "Team", param: "team", list: "teams" }),
    h(NameFilter, { name: "Model", param: "model", ...(isAdmin ? { list: "models", field: "model" } : { models }) }),
    selectBox({
      name: "Status",
      value: query.get("state") ?? query.get("status") ?? "",
      options: Object.entries(statusNames),
      onChoose: (value) =>
        setQuery({
          state: null,
          code: null,
          status: value,
          ...((value === "refused") !== onlyRefused && withoutAll(listNames)),
        }),
    }),
    h(RangeControl, { defaultPreset: null }),
    sortChoice(orderOf(query), [
      { head: "Time", sort: "time" },
      ...(onlyRefused
        ? [
            { head: "Count", sort: "count" },
            { head: "Needed", sort: "needed" },
          ]
        : [{ head: "Cost", sort: "cost" }]),
    ]),
    filterNames.some((name) => query.get(name) !== null) &&
      actionButton(() => setQuery(withoutAll(filterNames)), [icon("close"), "Clear"], {
        class: "button small",
      }),
    details(
      { class: "more-filters", open: chargeFilters.some((name) => query.get(name) !== null) },
      summary(null, "More filters"),
      div(
        { class: "filters" },
        select("source", "Source", "All sources", sourceNames),
        select("doubt", "Doubt", "Doubts", { true: "Any doubt", ...doubtNames }),
        h(NameFilter, { name: "Group", param: "group" }),
        h(NameFilter, { name: "User", param: "user" }),
        h(NameFilter, { name: "Tag (name=value)", param: "tag" }),
        h(NameFilter, { name: "Label (name=value)", param: "label" }),
        h(NameFilter, { name: "Cost from (USD)", param: "min_usd", inputMode: "decimal" }),
        h(NameFilter, { name: "Cost up to (USD)", param: "max_usd", inputMode: "decimal" }),
        without !== null && span({ class: "badge calm" }, `without a ${without}`),
        query.get("code") !== null && span({ class: "badge bad" }, plainName(query.get("code") ?? "")),
      ),
    ),
  );
}

/** Returns the change of the address that removes the named parameters. */
function withoutAll(names: readonly string[]): Readonly<Record<string, null>> {
  return Object.fromEntries(names.map((name) => [name, null]));
}

interface NameProps {
  readonly name: string;
  readonly param: string;
  /** List of the admin API that contains the names to suggest. `field` is the field of its rows with the name. */
  readonly list?: string;
  readonly field?: string;
  readonly models?: readonly string[];
  readonly inputMode?: "decimal";
}

const suggestedMax = 20;

/** Shows a field for an exact value. Filters when the user chooses a suggestion, presses Enter or leaves the field. */
function NameFilter({ name, param, list, field = "name", models, inputMode }: NameProps): View {
  const value = useRoute().query.get(param) ?? "";
  const [text, setText] = useTyped(value);
  const q = useSettled(text.trim());
  const id = `known-${param}`;
  const apply = (next: string) => setQuery({ [param]: next.trim() });
  return label(
    { class: "filter" },
    span({ class: "unseen" }, name),
    input({
      type: "search",
      placeholder: name,
      value: text,
      maxLength: 200,
      list: id,
      autoComplete: "off",
      spellcheck: false,
      ...(inputMode && { inputMode }),
      onInput: (event) => {
        const { value: typed, list: suggested } = event.currentTarget;
        setText(typed);
        if (typed === "" || [...(suggested?.options ?? [])].some((known) => known.value === typed)) apply(typed);
      },
      onChange: (event) => apply(event.currentTarget.value),
    }),
    list !== undefined && q !== value
      ? h(SuggestedNames, { id, list, field, query: { q, sort: "name", limit: suggestedMax } })
      : suggestions(id, models ?? []),
  );
}
