import { h } from "preact";
import { useState } from "preact/hooks";
import { adminBase, ask } from "../api.ts";
import {
  article,
  details,
  div,
  h2,
  h3,
  header,
  input,
  label,
  li,
  p,
  section,
  small,
  span,
  summary,
  ul,
  type Children,
  type View,
} from "../dom.ts";
import { count, difference, exactMoney, instant, money, percent, shareOf } from "../format.ts";
import { listView, useList } from "../list.ts";
import { addressOf, closeDrawer, openDrawer, useRoute } from "../location.ts";
import { useAnswer, useMayEdit, useUser } from "../resource.ts";
import { openButton, type Column } from "../table.ts";
import { showToast } from "../toasts.ts";
import type {
  BudgetHistoryJson,
  BudgetListJson,
  SetBudgetJson,
  FullestJson,
  Period,
  RankedBudgetJson,
  RankedStandingJson,
  StandingJson,
} from "../types.ts";
import {
  amount,
  badge,
  budgetBar,
  Dialog,
  empty,
  iconButton,
  link,
  loaded,
  muted,
  searchInput,
  timeAgo,
  view,
} from "../ui.ts";
import {
  addButton,
  choice,
  confirmation,
  field,
  KeyOrTeamField,
  numberOf,
  textOf,
  usdField,
  useDialogs,
} from "./forms.ts";
import type { Form, Show } from "./forms.ts";
import { eachWords, isForEach, isOfSession, pageOfScope, scopeOf, scopeWords, subjectNames } from "../scopes.ts";
import { budgetName, periodWords, plainSubject, subjectOf, upperFirst } from "./labels.ts";
import { OpenRaises, raiseButton, raisedText } from "./raises.ts";

/** Settings of a budget, without the amounts of a window. */
type BudgetSettings = Pick<StandingJson, "scope" | "period" | "mode" | "limit_usd" | "warn_percent">;

/** Describes a scope such as "key:alice". */
export function scopeName(scope: string): string {
  return upperFirst(scopeWords(scope));
}

/** Marks a budget that refuses nothing. */
export function softBadge(): View {
  return badge("calm", "soft", "Warns but never refuses requests");
}

/** Returns a link to the page of the key or team in a scope. Returns false if the scope names neither. */
function subjectLink(scope: string): View | false {
  const page = pageOfScope(scope);
  if (page === null) return false;
  const [kind, name] = page;
  return p(null, link(addressOf([`${kind}s`, name]), `See ${kind} ${name}`, "button small"));
}

/** Shows when a budget resets. */
export function resetOf({ resets_at: at }: Pick<StandingJson, "resets_at">): View {
  return at === null ? span(null, "never resets") : span(null, "resets ", timeAgo(at));
}

/** Returns the share of a budget that is spent or held; above 1 if the limit is exceeded. */
export function fullnessOf({ spent_usd: spent, held_usd: held, limit_usd: limit }: StandingJson): number {
  return shareOf(spent, limit) + shareOf(held, limit);
}

/** Shows one budget: its bar, its amounts and its reset. `below` is content at the end, such as past windows. */
export function budgetCard(
  standing: StandingJson & { readonly refusing?: boolean },
  { refused = 0, actions, below }: BudgetCardOptions = {},
): View {
  const { scope, key, subject, period, mode, spent_usd: spent, held_usd: held, remaining_usd: left } = standing;
  const full = fullnessOf(standing);
  const raised = raisedText(standing);
  // Omits a subject that is only the key: its cards are shown on pages that already name the key.
  const subjectText = subject === null || subject === `key=${key}` ? null : plainSubject(subject);
  return article(
    { class: "card budget", key: `${scope} ${period} ${key} ${subject}` },
    div(
      { class: "budget-head" },
      div(
        null,
        h3(null, scopeName(scope)),
        p(
          { class: "hint" },
          amount(standing.limit_usd),
          ` ${periodWords[period].per}`,
          subjectText !== null && ` for ${subjectText}`,
          raised !== null && [", ", raised],
          mode === "soft" && softBadge(),
        ),
      ),
      div({ class: "actions" }, actions),
    ),
    budgetBar(standing),
    div(
      { class: "budget-foot" },
      span(null, amount(spent), muted(" spent"), Number(held) > 0 && [muted(" · "), amount(held), muted(" held")]),
      span(null, full >= 1 ? badge(mode === "soft" ? "warn" : "bad", "used up") : [amount(left), muted(" left")]),
    ),
    div({ class: "budget-foot muted" }, span(null, usedText(full * 100), " used"), resetOf(standing)),
    (refused > 0 || (standing.refusing === true && full < 1)) &&
      p(
        { class: "known-line" },
        standing.refusing === true && full < 1 && badge("bad", "refusing"),
        refused > 0 && `${count(refused)} refused today`,
      ),
    below,
  );
}

interface BudgetCardOptions {
  /** Number of requests that this budget refused today. */
  readonly refused?: number;
  readonly actions?: Children;
  readonly below?: Children;
}

/** Returns the limit of a budget without the raises of a window. */
function ownLimit({ limit_usd: limit, raised_usd: raised }: Pick<StandingJson, "limit_usd" | "raised_usd">): string {
  return difference(limit, raised);
}

const usedMax = 999;

/**
 * Formats a used percentage. Above 999% it returns ">999%": after a limit is lowered, the percentage can be very large.
 */
export function usedText(percentage: number): string {
  return percentage > usedMax ? `>${percent(usedMax / 100)}` : percent(percentage / 100);
}

/** Compares budgets for a sort: those that refuse requests come first, then the fullest ones. */
function byFullness(one: RankedStandingJson, other: RankedStandingJson): number {
  return Number(other.refusing) - Number(one.refusing) || other.used_percent - one.used_percent;
}

interface BudgetsPartProps {
  readonly budgets: readonly RankedStandingJson[];
  /** Scope of a new budget that the user can set here; null if no budget can be set here. */
  readonly scope: string | null;
  /** Opens a form; null if the user may only read. */
  readonly show: Show | null;
  /** Returns the number of requests that a budget refused today. */
  readonly refusedBy?: (standing: RankedStandingJson) => number;
  readonly whenEmpty: View;
}

/** Shows the budgets that apply to a key or a team, as a part of its page. */
export function budgetsPart({ budgets, scope, show, refusedBy, whenEmpty }: BudgetsPartProps): View {
  const add = show !== null && scope !== null && (() => show(setBudget(null, scope)));
  return section(
    { class: "part", "aria-label": "Budgets" },
    header({ class: "part-head" }, h2(null, "Budgets"), add && addButton("Set a budget", add)),
    budgets.length === 0
      ? whenEmpty
      : div(
          { class: "budgets" },
          budgets.toSorted(byFullness).map((standing) =>
            budgetCard(standing, {
              refused: refusedBy?.(standing) ?? 0,
              actions: show && raiseButton(standing, show),
              below: h(BudgetWindows, { standing }),
            }),
          ),
        ),
  );
}

/** Shows the fullest budget that applies to a key or team. Names the budget's scope if several keys share it. */
export function fullestCell(fullest: FullestJson | null): View {
  if (fullest === null) return muted("none");
  const { scope, mode, limit_usd: limit, spent_usd: spent, period, refusing, used_percent: used } = fullest;
  const isShared = !isForEach(scope) && pageOfScope(scope)?.[0] !== "key";
  return div(
    { class: "mini-budget" },
    budgetBar(fullest),
    small(
      null,
      span({ class: "num", title: `${exactMoney(spent)} spent` }, usedText(used)),
      muted(` of ${money(limit)} ${periodWords[period].per}`),
      isShared && muted(`, ${scopeWords(scope)}`),
      mode === "soft" && [" ", softBadge()],
      refusing && [" ", badge("bad", "refusing")],
    ),
  );
}

/** Shows the amounts of the past windows of one budget as bars, oldest first. */
function BudgetWindows({
  standing: { scope, subject, period, mode, limit_usd: limit },
}: {
  readonly standing: Pick<StandingJson, "scope" | "subject" | "period" | "mode" | "limit_usd">;
}): Children {
  const { who } = useUser();
  const resource = useAnswer<BudgetHistoryJson>(`${adminBase}/budgets/history`, 60_000, { scope, period, subject });
  return loaded(resource, 2, ({ windows: all }) => {
    const windows = all.slice(0, all.findLastIndex(({ requests }) => requests > 0) + 1);
    if (windows.length < 2) return false;
    const most = Math.max(...windows.map(({ spent_usd: spent }) => shareOf(spent, limit)), 1);
    const bars = ul(
      { class: "windows", "aria-label": "Past windows" },
      windows.toReversed().map(({ starts_at: start, spent_usd: spent, requests }) => {
        const share = shareOf(spent, limit);
        const text = `${instant(start, period === "1h" ? "hour" : "date", who.time_zone)}: ${money(spent)}, ${count(requests)} requests`;
        return li(
          { key: start, title: text },
          span({ class: "unseen" }, text),
          span({
            class: share < 1 ? "ok" : mode === "soft" ? "warn" : "bad",
            "aria-hidden": "true",
            style: { height: `${(share / most) * 100}%` },
          }),
        );
      }),
    );
    return [bars, small({ class: "muted" }, `The last ${count(windows.length)} ${periodWords[period].windows}`)];
  });
}

/** Lists the budgets, fullest first. An `each-…` budget has one row, whatever its number of windows. */
export function Budgets(): View {
  const { query } = useRoute();
  const mayEdit = useMayEdit();
  const list = useList<RankedBudgetJson>({
    path: `${adminBase}/budgets/ranked`,
    field: "budgets",
    sort: "share",
    order: "desc",
  });
  const { show, dialog } = useDialogs(list.reload);
  const [scope, period] = [query.get("scope"), query.get("period")];
  return view(
    {
      title: "Budgets",
      side: mayEdit && addButton("Set a budget", () => show(setBudget(null, "key")), "button primary"),
    },
    h(OpenRaises, { onDecided: list.reload }),
    listView({
      list,
      search: "Find a budget",
      whenEmpty: empty(
        "No budgets",
        "A budget limits what a key, a team, a user or all requests may spend in an hour, a day, a week, a month or in total. Requests that do not fit are refused before they cost anything.",
      ),
      caption: "Budgets",
      class: "keys",
      keyOf: ({ scope: of, period: per }) => `${of} ${per}`,
      onOpen: openBudget,
      columns: budgetColumns(show, mayEdit),
    }),
    [
      dialog,
      scope !== null &&
        period !== null &&
        h(Dialog, {
          key: `${scope} ${period}`,
          title: upperFirst(budgetName({ scope, period: period as Period })),
          kind: "drawer",
          onClosed: () => closeDrawer({ scope: null, period: null }),
          body: () => h(BudgetDetails, { scope, period: period as Period, onRaised: list.reload }),
        }),
    ],
  );
}

function openBudget({ scope, period }: RankedBudgetJson): void {
  openDrawer({ scope, period });
}

interface DetailsProps {
  readonly scope: string;
  readonly period: Period;
  readonly onRaised: () => void;
}

/** Shows one budget with its past windows. For an `each-…` budget, lists the fullest windows instead. */
function BudgetDetails({ scope, period, onRaised }: DetailsProps): Children {
  const [q, setQ] = useState("");
  const mayEdit = useMayEdit();
  const query = { scope, period, q, sort: "share", order: "desc", limit: 50 };
  const resource = useAnswer<BudgetListJson>(`${adminBase}/budgets`, 10_000, query);
  const { show, dialog } = useDialogs(() => {
    resource.reload();
    onRaised();
  });
  const raiseOf = (standing: StandingJson) => mayEdit && raiseButton(standing, show);
  const content = loaded(resource, 6, ({ budgets, next }) => {
    const [first] = budgets;
    const [name, names] = [subjectNames(scope, 1), subjectNames(scope, 2)];
    if (first === undefined && q === "") return p({ class: "hint quiet" }, "No request has used this budget yet.");
    if (!isForEach(scope))
      return (
        first &&
        div(
          { class: "stack" },
          budgetCard(first, { actions: raiseOf(first), below: h(BudgetWindows, { standing: first }) }),
          subjectLink(scope),
        )
      );
    return div(
      { class: "stack" },
      first !== undefined &&
        p(null, amount(ownLimit(first)), ` ${periodWords[period].per} for ${eachWords(scope)}, `, resetOf(first)),
      div({ class: "filters" }, searchInput(`Find a ${name}`, q, setQ)),
      budgets.length === 0
        ? p({ class: "hint" }, "Nothing matches.")
        : ul(
            { class: "spenders" },
            budgets.map((standing) =>
              li(
                { key: standing.subject },
                div({ class: "spender-name" }, subjectOf(standing)),
                div(
                  { class: "spender-cost" },
                  amount(standing.spent_usd),
                  span({ class: "muted num share-text" }, usedText(standing.used_percent)),
                  raiseOf(standing),
                ),
                raisedLine(standing),
                div({ class: "share-bar" }, budgetBar(standing)),
              ),
            ),
          ),
      next !== null && p({ class: "hint" }, `Only the 50 fullest ${names} are shown. Search for others.`),
    );
  });
  return [content, dialog];
}

/** Shows the raised limit of one window of an each-… budget. Returns null if the window has no raise. */
function raisedLine(standing: StandingJson): View | null {
  const raised = raisedText(standing);
  return raised && small({ class: "raised muted" }, amount(standing.limit_usd), ", ", raised);
}

const budgetColumns = (show: Show, mayEdit: boolean): readonly Column<RankedBudgetJson>[] => [
  { head: "Budget", sort: "scope", rowHeader: true, cell: nameCell },
  { head: "Used", sort: "share", cellClass: "key-budget", cell: usedCell },
  { head: "Spent", sort: "spent", class: "right", cellClass: "spent", cell: ({ spent_usd: usd }) => amount(usd) },
  {
    head: "Limit",
    sort: "limit",
    class: "right wide-only",
    cell: ({ scope, limit_usd: usd }) => [amount(usd), isForEach(scope) && muted(" each")],
  },
  {
    head: "Resets",
    cellClass: "last-used",
    cell: ({ resets_at: at }) =>
      at === null ? muted("never") : [span({ class: "narrow-only" }, "resets "), timeAgo(at)],
  },
  {
    head: "Actions",
    unseen: true,
    cellClass: "row-actions",
    cell: (budget) => mayEdit && !isOfSession(budget.scope) && budgetActions(budget, show),
  },
];

function budgetActions(budget: BudgetSettings, show: Show): View {
  const name = `the ${budgetName(budget)}`;
  return div(
    { class: "actions" },
    !isForEach(budget.scope) && raiseButton(budget, show),
    iconButton("edit", `Change ${name}`, () => show(setBudget(budget, budget.scope))),
    iconButton("bin", `Remove ${name}`, () => show(removeBudget(budget))),
  );
}

function nameCell(budget: RankedBudgetJson): Children {
  const { scope, period, mode, windows } = budget;
  return [
    div(
      { class: "key-name" },
      openButton(() => openBudget(budget), scopeName(scope)),
      mode === "soft" && softBadge(),
    ),
    small(
      { class: "muted" },
      periodWords[period].per.replace(/^an? /, "each "),
      isForEach(scope) && ` · ${count(windows)} ${subjectNames(scope, windows)}`,
    ),
  ];
}

/**
 * Shows how full a budget is. For an `each-…` budget, names the subjects that have used the largest shares of their
 * limit.
 */
function usedCell(budget: RankedBudgetJson): View {
  const { scope, refusing, used_percent: used, fullest } = budget;
  const { limit_usd: limit, spent_usd: spent, held_usd: held } = fullest[0] ?? budget;
  return div(
    { class: "mini-budget" },
    budgetBar({ ...budget, limit_usd: limit, spent_usd: spent, held_usd: held, refusing: refusing > 0 }),
    small(
      null,
      isForEach(scope)
        ? fullest.flatMap(({ used_percent, ...window }, index) => [
            index > 0 && ", ",
            subjectOf(window),
            span({ class: "muted num" }, ` ${usedText(used_percent)}`),
          ])
        : span({ class: "muted num" }, `${usedText(used)} of ${money(limit)}`),
      refusing > 0 && [
        " ",
        badge("bad", isForEach(scope) && refusing > 1 ? `${count(refusing)} refusing` : "refusing"),
      ],
    ),
  );
}

function removeBudget(budget: BudgetSettings): Form {
  const { scope, period, limit_usd: limit } = budget;
  const text = [
    `${scopeName(scope)} may then spend more than `,
    amount(limit),
    ` ${periodWords[period].per}. The charges stay in the ledger.`,
  ];
  return confirmation(text, {
    title: "Remove this budget?",
    verb: "Remove",
    save: () => ask(`${adminBase}/budgets`, { method: "DELETE", query: { scope, period } }),
    done: "The budget is removed.",
  });
}

/**
 * Returns the form that changes `budget`, or that sets a new budget if `budget` is null. `scope` prefills a new budget
 * with a key, a team or a model, such as `key:alice`. `key` and `each-key` prefill only the kind of the scope.
 */
function setBudget(budget: BudgetSettings | null, scope: string): Form {
  return {
    title: budget === null ? "Set a budget" : "Change the budget",
    verb: "Save budget",
    fields:
      budget === null
        ? h(NewBudgetFields, { scope })
        : [p({ class: "hint" }, `${scopeName(budget.scope)}, ${periodWords[budget.period].per}`), limitFields(budget)],
    save: async (form) => {
      const body = {
        scope: budget?.scope ?? scopeIn(form),
        period: budget?.period ?? textOf(form, "period"),
        limit_usd: textOf(form, "limit"),
        mode: textOf(form, "mode"),
        warn_percent: numberOf(form, "warn"),
        ...(form.has("shared") && { shared: true }),
      };
      const { note } = await ask<SetBudgetJson>(`${adminBase}/budgets`, { method: "PUT", body });
      showToast(note ?? "The budget is set.");
    },
  };
}

const kinds = { key: "A key", team: "A team", all: "All requests", "each-key": "Each key" };

function NewBudgetFields({ scope }: { readonly scope: string }): Children {
  const model = scope.startsWith("model:") ? scope.slice("model:".length) : "";
  const [kindGiven = "key", nameGiven = ""] = model === "" ? scope.split(":") : ["all"];
  const [kind, setKind] = useState(kindGiven);
  return [
    div(
      { class: "field-row three", key: "scope" },
      choice("Scope", {
        name: "kind",
        value: kind,
        options: Object.entries(kinds),
        onChange: (event) => setKind(event.currentTarget.value),
      }),
      kind !== "all" &&
        h(KeyOrTeamField, {
          key: kind,
          title: kind === "key" ? "Key" : "Team",
          of: kind === "key" ? "keys" : "teams",
          name: "name",
          required: kind !== "each-key",
          placeholder: kind === "each-key" ? "any team" : "",
          defaultValue: nameGiven,
        }),
      choice("Period", {
        name: "period",
        options: Object.entries(periodWords).map(([period, { per }]) => [period, per]),
        chosen: "1mo",
      }),
    ),
    limitFields(null),
    details(
      { class: "more-fields", key: "more", open: model !== "" },
      summary(null, "Only some requests"),
      h(ConditionFields, { model }),
    ),
  ];
}

const eachNames = { "": "No", model: "For each model", user: "For each user", tag: "For each value of a tag" };

/** Shows the fields for further conditions of a new budget. */
function ConditionFields({ model }: { readonly model: string }): Children {
  const [each, setEach] = useState("");
  return [
    div(
      { class: "field-row", key: "conditions" },
      field("Model", { name: "model", placeholder: "all", defaultValue: model, hint: "A pattern such as gpt-5*." }),
      field("User", { name: "user", placeholder: "all" }),
    ),
    div(
      { class: "field-row", key: "named" },
      field("Tag", { name: "tag", placeholder: "feature=search" }),
      field("Label of the key", { name: "label", placeholder: "env=prod" }),
    ),
    div(
      { class: "field-row", key: "each" },
      choice("Separate budgets", {
        name: "each",
        options: Object.entries(eachNames),
        value: each,
        onChange: (event) => setEach(event.currentTarget.value),
      }),
      each === "tag" && field("Name of the tag", { name: "each_tag", required: true, placeholder: "session" }),
    ),
    label(
      { class: "check", key: "shared" },
      input({ type: "checkbox", name: "shared" }),
      "Let all keys share a hard budget on a user or a tag",
    ),
    p(
      { class: "hint", key: "hint" },
      "Clients choose the user and the tags of a request. To rely on them, pin or require them on the key.",
    ),
  ];
}

function scopeIn(form: FormData): string {
  const each = textOf(form, "each");
  return scopeOf({
    kind: textOf(form, "kind"),
    name: textOf(form, "name"),
    more: Object.fromEntries(["label", "model", "user", "tag"].map((name) => [name, textOf(form, name)])),
    each: each === "tag" ? `tag:${textOf(form, "each_tag")}` : each,
  });
}

/** Shows the fields for the limit and its effect. `budget` is the budget to change; null for a new one. */
function limitFields(budget: BudgetSettings | null): View[] {
  return [
    usdField("Limit (USD)", { name: "limit", placeholder: "25.00", defaultValue: budget?.limit_usd ?? "" }),
    div(
      { class: "field-row" },
      choice("At the limit", {
        name: "mode",
        options: [
          ["hard", "Refuse requests"],
          ["soft", "Only warn"],
        ],
        chosen: budget?.mode,
      }),
      field("Warning threshold (%)", {
        name: "warn",
        class: "num",
        type: "number",
        min: 1,
        max: 100,
        step: 1,
        placeholder: "never",
        defaultValue: budget === null ? "80" : (budget.warn_percent ?? ""),
      }),
    ),
  ];
}
