import { h } from "preact";
import { useState } from "preact/hooks";
import { admin, ask } from "../api.ts";
import { article, classes, div, h3, input, option, p, select, span, type Children, type View } from "../dom.ts";
import { ago, count, instant, percent, shareOf } from "../format.ts";
import { useMayEdit } from "../resource.ts";
import { say } from "../toasts.ts";
import type { BudgetSet, Period, Standing } from "../types.ts";
import { amount, badge, budgetBar, iconButton } from "../ui.ts";
import { confirmation, field, FormDialog, textOf } from "./forms.ts";

export const periodNames: Record<Period, string> = {
  total: "in total",
  "1h": "an hour",
  "1d": "a day",
  "1w": "a week",
  "1mo": "a month",
};

/** Describes a scope such as "key:alice". */
export function scopeName({ scope, key }: Pick<Standing, "scope" | "key">): string {
  const [kind = "", name = ""] = scope.split(":");
  if (isOfSession(scope)) return `${name.split(" ")[0]}, session ${scope.slice(scope.indexOf("=") + 1)}`;
  if (kind === "all") return "All requests";
  if (kind === "team") return `Team ${name}`;
  if (kind === "key") return name;
  const each = name === "" ? "each key" : `each key of ${name}`;
  return key === null ? `E${each.slice(1)}` : `${key}, as ${each}`;
}

/** Tells whether a budget belongs to a session of `farebox run`, which alone creates and removes it. */
function isOfSession(scope: string): boolean {
  return scope.includes(" tag:session=");
}

/** Shows one budget: its bar, what is left, and its reset. */
export function budgetCard(standing: Standing, actions: Children): View {
  const { limit_usd: limit, spent_usd: spent, held_usd: held, remaining_usd: left, period, mode } = standing;
  const full = shareOf(spent, limit) + shareOf(held, limit);
  return article(
    { class: "card budget", key: `${standing.scope} ${period} ${standing.key}` },
    div(
      { class: "budget-head" },
      div(
        null,
        h3(null, scopeName(standing)),
        p(
          { class: "hint" },
          amount(limit),
          ` ${periodNames[period]}`,
          mode === "soft" && badge("calm", "soft", "Warns, refuses nothing"),
        ),
      ),
      div({ class: "actions" }, actions),
    ),
    budgetBar(standing),
    div(
      { class: "budget-foot" },
      span(
        null,
        amount(spent),
        span({ class: "muted" }, " spent"),
        Number(held) > 0 && [span({ class: "muted" }, " · "), amount(held), span({ class: "muted" }, " held")],
      ),
      full >= 1 ? badge("bad", "used up") : span(null, amount(left), span({ class: "muted" }, " left")),
    ),
    div({ class: "budget-foot muted" }, span(null, percent(full), " used"), resetWords(standing)),
  );
}

export type BudgetTask =
  | { readonly do: "set"; readonly standing: Standing | null; readonly scope: string }
  | { readonly do: "remove"; readonly standing: Standing };

interface BudgetsProps {
  readonly budgets: readonly Standing[];
  readonly onTask: (task: BudgetTask) => void;
}

export function Budgets({ budgets, onTask }: BudgetsProps): View {
  const mayEdit = useMayEdit();
  const actionsOf = (standing: Standing) =>
    mayEdit &&
    !isOfSession(standing.scope) && [
      iconButton("edit", `Change the budget of ${scopeName(standing)}, ${periodNames[standing.period]}`, () =>
        onTask({ do: "set", standing, scope: standing.scope }),
      ),
      iconButton("bin", `Remove the budget of ${scopeName(standing)}, ${periodNames[standing.period]}`, () =>
        onTask({ do: "remove", standing }),
      ),
    ];
  const each = Map.groupBy(
    budgets.filter(({ key }) => key !== null),
    ({ scope, period }) => `${scope} ${period}`,
  );
  return div(
    { class: "budgets" },
    budgets.filter(({ key }) => key === null).map((standing) => budgetCard(standing, actionsOf(standing))),
    [...each.values()].map((ofKeys) => eachKeyCard(ofKeys, actionsOf)),
  );
}

/** Shows a budget for each key by the key that used most of it. */
function eachKeyCard(ofKeys: readonly Standing[], actionsOf: (standing: Standing) => Children): View | null {
  const used = ({ limit_usd: limit, spent_usd: spent, held_usd: held }: Standing) =>
    shareOf(spent, limit) + shareOf(held, limit);
  const [fullest] = ofKeys.toSorted((one, other) => used(other) - used(one));
  if (fullest === undefined) return null;
  const { scope, period, limit_usd: limit, mode, key } = fullest;
  return article(
    { class: "card budget", key: `${scope} ${period}` },
    div(
      { class: "budget-head" },
      div(
        null,
        h3(null, scopeName({ scope, key: null })),
        p(
          { class: "hint" },
          amount(limit),
          ` ${periodNames[period]}`,
          mode === "soft" && badge("calm", "soft", "Warns, refuses nothing"),
        ),
      ),
      div({ class: "actions" }, actionsOf({ ...fullest, key: null })),
    ),
    budgetBar(fullest),
    div(
      { class: "budget-foot" },
      span(null, key, span({ class: "muted" }, " used most of it")),
      span(null, percent(used(fullest))),
    ),
    div(
      { class: "budget-foot muted" },
      span(null, ofKeys.length === 1 ? "one key has spent" : `${count(ofKeys.length)} keys have spent`),
      resetWords(fullest),
    ),
  );
}

function resetWords({ resets_at: resets }: Standing): View {
  return resets === null
    ? span(null, "never resets")
    : span({ title: instant(resets, "full") }, `resets ${ago(resets)}`);
}

interface TaskProps {
  readonly task: BudgetTask;
  readonly names: { readonly keys: readonly string[]; readonly teams: readonly string[] };
  readonly onClosed: () => void;
  readonly onDone: () => void;
}

export function BudgetDialog({ task, names, onClosed, onDone }: TaskProps): View {
  if (task.do === "set") return h(SetBudget, { task, names, onClosed, onDone });
  const { standing } = task;
  const { scope, period } = standing;
  return confirmation({
    title: "Remove this budget?",
    verb: "Remove",
    danger: true,
    onClosed,
    text: [
      `${scopeName({ scope, key: null })} may then spend more than `,
      amount(standing.limit_usd),
      ` ${periodNames[period]}. What was spent stays in the ledger.`,
    ],
    work: async () => {
      await ask(`${admin}/budgets`, { method: "DELETE", query: { scope, period } });
      say("The budget is removed.");
      onDone();
    },
  });
}

const kinds = { key: "A key", team: "A team", all: "All requests", "each-key": "Each key" } as const;
type Kind = keyof typeof kinds;

function SetBudget({
  task,
  names,
  onClosed,
  onDone,
}: TaskProps & { readonly task: Extract<BudgetTask, { do: "set" }> }): View {
  const { standing } = task;
  const [kindGiven, nameGiven = ""] = task.scope.split(":");
  const [kind, setKind] = useState<Kind>((kindGiven ?? "key") as Kind);
  const choices = kind === "team" || kind === "each-key" ? names.teams : names.keys;
  const save = async (form: FormData) => {
    const name = textOf(form, "name");
    const scope = standing?.scope ?? (kind === "all" || name === "" ? kind : `${kind}:${name}`);
    const warn = textOf(form, "warn");
    const body = {
      scope,
      period: standing?.period ?? textOf(form, "period"),
      limit_usd: textOf(form, "limit"),
      mode: textOf(form, "mode"),
      warn_percent: warn === "" ? null : Number(warn),
    };
    const { note } = await ask<BudgetSet>(`${admin}/budgets`, { method: "PUT", body });
    say(note ?? "The budget is set.");
    onDone();
  };
  const scope =
    standing === null
      ? scopeFields({ kind, setKind, choices, nameGiven })
      : p({ class: "hint" }, `${scopeName({ scope: standing.scope, key: null })}, ${periodNames[standing.period]}`);
  return h(FormDialog, {
    title: standing === null ? "Set a budget" : "Change the budget",
    verb: "Save budget",
    onClosed,
    save,
    fields: [scope, ...limitFields(standing)],
  });
}

/** Fields for the scope and period of a new budget. */
function scopeFields({
  kind,
  setKind,
  choices,
  nameGiven,
}: {
  readonly kind: Kind;
  readonly setKind: (kind: Kind) => void;
  readonly choices: readonly string[];
  readonly nameGiven: string;
}): View {
  return div(
    { class: "field-row" },
    field(
      "Scope",
      select(
        { name: "kind", value: kind, onChange: (event) => setKind(event.currentTarget.value as Kind) },
        Object.entries(kinds).map(([value, text]) => option({ key: value, value }, text)),
      ),
    ),
    kind !== "all" && field(kind === "key" ? "Key" : "Team", nameChoice(kind, choices, nameGiven)),
    field(
      "Period",
      select(
        { name: "period", defaultValue: "1mo" },
        Object.entries(periodNames).map(([value, text]) =>
          option({ key: value, value, selected: value === "1mo" }, text),
        ),
      ),
    ),
  );
}

/** Fields for the limit and what happens there. `standing`: the budget that is changed; null for a new one. */
function limitFields(standing: Standing | null): View[] {
  return [
    field(
      "Limit (USD)",
      input({
        name: "limit",
        class: "num",
        inputMode: "decimal",
        required: true,
        autoComplete: "off",
        pattern: "[0-9]{1,7}([.][0-9]{1,12})?",
        title: "An amount such as 5 or 2.50",
        placeholder: "25.00",
        defaultValue: standing?.limit_usd ?? "",
      }),
    ),
    div(
      { class: "field-row" },
      field(
        "At the limit",
        select(
          { name: "mode" },
          option({ value: "hard", selected: standing?.mode !== "soft" }, "Refuse requests"),
          option({ value: "soft", selected: standing?.mode === "soft" }, "Only warn"),
        ),
      ),
      field(
        "Warning threshold (%)",
        input({
          name: "warn",
          class: "num",
          type: "number",
          min: 1,
          max: 100,
          step: 1,
          placeholder: "never",
          defaultValue: standing === null ? "80" : String(standing.warn_percent ?? ""),
        }),
      ),
    ),
  ];
}

function nameChoice(kind: Kind, choices: readonly string[], given: string): View {
  return select(
    { name: "name", key: kind, class: classes("names") },
    kind === "each-key" && option({ value: "" }, "of any team"),
    choices.map((name) => option({ key: name, value: name, selected: name === given }, name)),
  );
}
