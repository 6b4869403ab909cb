import { listBudgets, newBudgetFault, removeBudget, setBudget, type NewBudget } from "../admin/budgets.ts";
import { budgetDetails } from "../core/audit.ts";
import { periods } from "../core/budget.ts";
import { keyNames } from "../reporting/names.ts";
import type { StandingJson } from "../reporting/shapes/keys.ts";
import { standingOf } from "../reporting/standing.ts";
import { percentArgument } from "./arguments.ts";
import { command, json, type Given } from "./command.ts";
import { printLine, type Io } from "./io.ts";
import { printRows, right } from "./table.ts";
import { ledgerSettings } from "./tools.ts";

const scopeHelp = `
SCOPE is one of
  all             everything together
  key:NAME        one key, by its name or id
  team:NAME       the keys of a team together
  each-key        every key for itself
  each-key:TEAM   every key of a team for itself
PERIOD is total, or a calendar window in the time zone: 1h, 1d, 1w (from Monday), 1mo`;

const per = { value: "<period>", help: "over which the limit holds", choices: periods, required: true } as const;

const setOptions = {
  per,
  soft: { help: "only warn: never refuse a request" },
  warn: { value: "<share>", help: "share of the limit at which to warn, such as 80%", parse: percentArgument },
  json,
} as const;

function newBudget(scope: string, limit: string, options: Given<typeof setOptions>): NewBudget {
  const { per: period, soft, warn } = options;
  return { scope, limit, period, mode: soft ? "soft" : "hard", warnPercent: warn ?? null };
}

export const commands = [
  command("budgets set <scope> <limit>", {
    summary: "add a budget of LIMIT USD, or change the one of the same scope and period",
    options: setOptions,
    settings: ledgerSettings,
    help: scopeHelp,
    examples: ["farebox budgets set key:alice 25 --per 1mo --warn 80%", "farebox budgets set each-key 2.50 --per 1d"],
    check: (options, scope, limit) => newBudgetFault(newBudget(scope, limit, options)),
    // A budget of one key needs an existing key, and so an existing ledger. Other budgets may create the ledger.
    run: ({ withLedger }, options, scope, limit) =>
      withLedger(scope.startsWith("key:") ? "change" : "create", async (tools) => {
        const set = await setBudget(tools, newBudget(scope, limit, options));
        return set.ok ? { note: set.note, facts: budgetDetails(set.budget, await keyNames(tools.keys)) } : set;
      }),
    json: ({ facts }) => facts,
    print: (io, { facts: { scope, limit_usd, period, mode } }) =>
      printLine(io, `${scope}: USD ${limit_usd} per ${period}, ${mode}`),
    notes: ({ note }) => (note === null ? [] : [`note: ${note}`]),
  }),

  command("budgets list", {
    summary: "list budgets with what is spent and held in their present windows",
    options: { json },
    ledger: "read",
    examples: ["farebox budgets list"],
    run: async (tools) => {
      const nameOf = await keyNames(tools.keys);
      return { budgets: (await listBudgets(tools)).map((window) => standingOf(window, nameOf)) };
    },
    print: (io, { budgets }) => printStandings(io, budgets),
  }),

  command("budgets remove <scope>", {
    summary: "remove a budget; its charges stay in the ledger",
    options: { per },
    ledger: "change",
    help: scopeHelp,
    examples: ["farebox budgets remove key:alice --per 1mo"],
    run: async (tools, { per: period }, scope) => {
      const removed = await removeBudget(tools, { scope, period });
      return removed.ok ? { scope, period } : removed;
    },
    print: (io, { scope, period }) => printLine(io, `removed the budget of ${scope} per ${period}`),
  }),
];

export function printStandings(io: Io, standings: readonly StandingJson[]): void {
  printRows(io, standings, {
    scope: ({ scope }) => scope,
    key: ({ key }) => key,
    period: ({ period }) => period,
    mode: ({ mode }) => mode,
    limit: right(({ limit_usd }) => limit_usd),
    spent: right(({ spent_usd }) => spent_usd),
    held: right(({ held_usd }) => held_usd),
    remaining: right(({ remaining_usd }) => remaining_usd),
    resets: ({ resets_at }) => resets_at ?? "never",
  });
}
