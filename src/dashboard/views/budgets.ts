import { h } from "preact";
import { useState } from "preact/hooks";
import { admin, ask } from "../api.ts";
import { article, div, h3, p, span, type Children, type View } from "../dom.ts";
import { ago, count, instant, percent, shareOf } from "../format.ts";
import { useMayEdit } from "../resource.ts";
import type { BudgetSet, Period, Standing } from "../types.ts";
import { amount, badge, budgetBar, iconButton } from "../ui.ts";
import { choice, confirmation, field, FormDialog, numberOf, textOf } from "./forms.ts";
import type { DialogDeps, OpenDialog } from "./forms.ts";

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

/** Returns true for the budget of a `farebox run` session. Only the session creates and removes it. */
function isOfSession(scope: string): boolean {
  return scope.includes(" tag:session=");
}

/** Shows one budget: its bar, what is left, and its reset. */
export function budgetCard(standing: Standing, actions: Children): View {
  const { spent_usd: spent, held_usd: held, remaining_usd: left } = standing;
  const full = usedShare(standing);
  return frame(standing, actions, [
    [
      [
        amount(spent),
        span({ class: "muted" }, " spent"),
        Number(held) > 0 && [span({ class: "muted" }, " · "), amount(held), span({ class: "muted" }, " held")],
      ],
      full >= 1 ? badge("bad", "used up") : [amount(left), span({ class: "muted" }, " left")],
    ],
    [percent(full), " used"],
  ]);
}

function usedShare({ limit_usd: limit, spent_usd: spent, held_usd: held }: Standing): number {
  return shareOf(spent, limit) + shareOf(held, limit);
}

/** Shows a budget for each key. The card has the figures of the key that used the largest share. */
function eachKeyCard(ofKeys: readonly Standing[], actionsOf: (standing: Standing) => Children): View | null {
  const [fullest] = ofKeys.toSorted((one, other) => usedShare(other) - usedShare(one));
  if (fullest === undefined) return null;
  const budget = { ...fullest, key: null };
  return frame(budget, actionsOf(budget), [
    [[fullest.key, span({ class: "muted" }, " used most of it")], percent(usedShare(fullest))],
    ofKeys.length === 1 ? "one key has spent" : `${count(ofKeys.length)} keys have spent`,
  ]);
}

/** Shows the card of a budget: its bar, a line with a left and a right part, and a note next to the reset. */
function frame(standing: Standing, actions: Children, [[left, right], note]: [[Children, Children], Children]): View {
  const { scope, key, limit_usd: limit, period, mode, resets_at: resets } = standing;
  return article(
    { class: "card budget", key: `${scope} ${period} ${key}` },
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
    div({ class: "budget-foot" }, span(null, left), span(null, right)),
    div(
      { class: "budget-foot muted" },
      span(null, note),
      resets === null ? span(null, "never resets") : span({ title: instant(resets, "full") }, `resets ${ago(resets)}`),
    ),
  );
}

interface BudgetsProps {
  readonly budgets: readonly Standing[];
  readonly show: DialogDeps["show"];
}

export function Budgets({ budgets, show }: BudgetsProps): View {
  const mayEdit = useMayEdit();
  const actionsOf = (standing: Standing) => {
    if (!mayEdit || isOfSession(standing.scope)) return false;
    const name = `the budget of ${scopeName(standing)}, ${periodNames[standing.period]}`;
    return [
      iconButton("edit", `Change ${name}`, () => show(setBudget(standing, standing.scope))),
      iconButton("bin", `Remove ${name}`, () => show(removeBudget(standing))),
    ];
  };
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

function removeBudget({ scope, period, limit_usd: limit }: Standing): OpenDialog {
  const text = [
    `${scopeName({ scope, key: null })} may then spend more than `,
    amount(limit),
    ` ${periodNames[period]}. What was spent stays in the ledger.`,
  ];
  return ({ onClosed, onDone }) =>
    confirmation(text, {
      title: "Remove this budget?",
      verb: "Remove",
      onClosed,
      onDone,
      save: async () => {
        await ask(`${admin}/budgets`, { method: "DELETE", query: { scope, period } });
        return "The budget is removed.";
      },
    });
}

/** Opens the form for a budget. `standing` is the budget to change; null creates a budget for `scope`. */
export function setBudget(standing: Standing | null, scope: string): OpenDialog {
  return (deps) => h(SetBudget, { ...deps, standing, scope });
}

const kinds = { key: "A key", team: "A team", all: "All requests", "each-key": "Each key" };
type Kind = keyof typeof kinds;

type SetProps = DialogDeps & { readonly standing: Standing | null; readonly scope: string };

function SetBudget({ standing, scope: asked, keys, teams, onClosed, onDone }: SetProps): View {
  const [kindGiven, nameGiven = ""] = asked.split(":");
  const [kind, setKind] = useState<Kind>((kindGiven ?? "key") as Kind);
  const names = (kind === "key" ? keys : teams).map((name) => [name, name] as const);
  const save = async (form: FormData) => {
    const name = textOf(form, "name");
    const body = {
      scope: standing?.scope ?? (kind === "all" || name === "" ? kind : `${kind}:${name}`),
      period: standing?.period ?? textOf(form, "period"),
      limit_usd: textOf(form, "limit"),
      mode: textOf(form, "mode"),
      warn_percent: numberOf(form, "warn"),
    };
    const { note } = await ask<BudgetSet>(`${admin}/budgets`, { method: "PUT", body });
    return note ?? "The budget is set.";
  };
  const scope =
    standing !== null
      ? p({ class: "hint" }, `${scopeName({ scope: standing.scope, key: null })}, ${periodNames[standing.period]}`)
      : div(
          { class: "field-row" },
          choice("Scope", {
            name: "kind",
            value: kind,
            options: Object.entries(kinds),
            onChange: (event) => setKind(event.currentTarget.value as Kind),
          }),
          kind !== "all" &&
            choice(kind === "key" ? "Key" : "Team", {
              name: "name",
              key: kind,
              class: "names",
              options: kind === "each-key" ? [["", "of any team"], ...names] : names,
              chosen: nameGiven,
            }),
          choice("Period", { name: "period", options: Object.entries(periodNames), chosen: "1mo" }),
        );
  return h(FormDialog, {
    title: standing === null ? "Set a budget" : "Change the budget",
    verb: "Save budget",
    onClosed,
    onDone,
    save,
    fields: [scope, ...limitFields(standing)],
  });
}

/** Shows the fields for the limit and what happens there. `standing` is the budget to change; null for a new one. */
function limitFields(standing: Standing | null): View[] {
  return [
    field("Limit (USD)", {
      name: "limit",
      class: "num",
      inputMode: "decimal",
      required: true,
      pattern: "[0-9]{1,7}([.][0-9]{1,12})?",
      title: "An amount such as 5 or 2.50",
      placeholder: "25.00",
      defaultValue: standing?.limit_usd ?? "",
    }),
    div(
      { class: "field-row" },
      choice("At the limit", {
        name: "mode",
        options: [
          ["hard", "Refuse requests"],
          ["soft", "Only warn"],
        ],
        chosen: standing?.mode,
      }),
      field("Warning threshold (%)", {
        name: "warn",
        class: "num",
        type: "number",
        min: 1,
        max: 100,
        step: 1,
        placeholder: "never",
        defaultValue: standing === null ? "80" : (standing.warn_percent ?? ""),
      }),
    ),
  ];
}
