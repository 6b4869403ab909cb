import { listBudgets, newBudgetFault, removeBudget, setBudget, type NewBudget } from "../admin/budget-changes.ts";
import { budgetDetails } from "../core/audit.ts";
import { periods } from "../core/budget.ts";
import { formatUsd, noMoney } from "../core/money.ts";
import { keyOfScope, parseScope } from "../core/scope.ts";
import { keyNames } from "../reporting/names.ts";
import type { Failure } from "../admin/result.ts";
import { raiseBudget, topUpBudget, type RaiseMade } from "../admin/raises.ts";
import type { RaiseJson, StandingJson } from "../reporting/shapes/budgets.ts";
import { raiseJson, standingOf } from "../reporting/standing.ts";
import { loadPrices } from "./price-files.ts";
import { percentArgument } from "./arguments.ts";
import { roundedUsd } from "./amounts.ts";
import { command, json, type Given } from "./command.ts";
import { printLine, type Io } from "./io.ts";
import { printRows, right, timeText } from "./table.ts";
import { priceSettings, userSettings, type LedgerTools } from "./tools.ts";

const scopeHelp = `
SCOPE is all, or conditions that a request must all meet. Quote several conditions: "team:research each-user"
  key:NAME          one key, by its name or id
  team:NAME         the keys of a team
  label:NAME=VALUE  keys with this label
  model:PATTERN     models of the price files, such as gpt-5*
  user:NAME         requests of a user
  tag:NAME=VALUE    requests with this tag
  each-key, each-model, each-user, each-tag:NAME
                    a separate window for each; at most two. each-key:TEAM is short for "team:TEAM each-key"
In values, write %20 for a space and %25 for %. Clients can name any user and tag: see docs/budgets.md.
PERIOD is total, or a calendar window in the time zone: 1h, 1d, 1w (from Monday), 1mo`;

const per = { value: "<period>", help: "time over which the limit applies", choices: periods, required: true } as const;

const setOptions = {
  per,
  soft: { help: "never refuse a request, only warn" },
  warn: { value: "<share>", help: "share of the limit at which to warn, such as 80%", parse: percentArgument },
  shared: { help: "allow a hard budget on a user or tag that every key can use up" },
  json,
} as const;

function newBudget(scope: string, limit: string, options: Given<typeof setOptions>): NewBudget {
  const { per: period, soft, warn, shared } = options;
  return { scope, limit, period, mode: soft ? "soft" : "hard", warnPercent: warn ?? null, shared };
}

function namesKey(text: string): boolean {
  const scope = parseScope(text);
  return scope !== undefined && keyOfScope(scope) !== null;
}

const forSubject = {
  value: "<subject>",
  help: "for a budget with each-…: subject of the window, such as alice or key=alice tag:session=s1",
} as const;
const why = { value: "<text>", help: "reason, kept in the audit log", required: true } as const;

async function raised({ keys }: LedgerTools, made: RaiseMade | Failure) {
  return made.ok ? raiseJson(made.budget, made.raise, await keyNames(keys)) : made;
}

function printRaise(io: Io, { scope, subject, period, limit_usd, amount_usd, until }: RaiseJson): void {
  const whose = subject === null ? "" : ` of ${subject}`;
  const end = until === null ? "without an end" : `until ${until}`;
  printLine(io, `${scope}${whose}: USD ${limit_usd} per ${period}, raised by USD ${amount_usd} ${end}`);
}

export const commands = [
  command("budgets set <scope> <limit>", {
    summary: "add a budget of LIMIT USD, or change the budget with the same scope and period",
    options: setOptions,
    settings: [...userSettings, ...priceSettings],
    help: scopeHelp,
    examples: [
      "farebox budgets set key:alice 25 --per 1mo --warn 80%",
      "farebox budgets set each-key 2.50 --per 1d",
      'farebox budgets set "team:research each-user" 5 --per 1d',
    ],
    check: (options, scope, limit) => newBudgetFault(newBudget(scope, limit, options)),
    // A budget of one key needs an existing key, and so an existing ledger. Other budgets may create the ledger.
    run: ({ withLedger }, options, scope, limit) =>
      withLedger(namesKey(scope) ? "change" : "create", async (tools) => {
        const catalogueInForce = async () => {
          const loading = await loadPrices(tools.prices, tools.settings.pricing);
          return loading.ok ? loading.catalogue : null;
        };
        const set = await setBudget({ ...tools, catalogueInForce }, newBudget(scope, limit, options));
        return set.ok ? { note: set.note, facts: budgetDetails(set.budget, await keyNames(tools.keys)) } : set;
      }),
    json: ({ facts }) => facts,
    print: (io, { facts: { scope, limit_usd, period, mode } }) =>
      printLine(io, `${scope}: USD ${limit_usd} per ${period}, ${mode}`),
    notes: ({ note }) => (note === null ? [] : [`note: ${note}`]),
  }),

  command("budgets list", {
    summary: "list budgets with the amounts spent and held in their current windows",
    options: { json },
    ledger: "read",
    examples: ["farebox budgets list"],
    run: async (tools) => {
      const nameOf = await keyNames(tools.keys);
      const standing = ({ isOpen, ...window }: Awaited<ReturnType<typeof listBudgets>>[number]) => ({
        ...standingOf(window, nameOf),
        ...(!isOpen && { subject: null }),
      });
      return { budgets: (await listBudgets(tools)).map(standing) };
    },
    print: (io, { budgets }) => printStandings(io, budgets),
    notes: ({ budgets }) => [...new Set(budgets.flatMap(sinceNote))],
  }),

  command("budgets raise <scope> <amount>", {
    summary: "add AMOUNT USD to the limit of the current window only",
    options: {
      per: { value: "<period>", help: "period of the budget, if the scope has several", choices: periods },
      for: forSubject,
      until: {
        value: "<when>",
        help: "end of the raise: 3h from now, or an ISO instant (default: end of the window)",
      },
      why,
      json,
    },
    settings: userSettings,
    ledger: "change",
    help: scopeHelp,
    examples: [
      'farebox budgets raise team:research 50 --why "evaluation before the release"',
      'farebox budgets raise each-key 5 --for alice --until 3h --why "demo"',
    ],
    run: async (tools, { per: period, for: subject, until, why: reason }, scope, amount) =>
      raised(tools, await raiseBudget(tools, { scope, amount, period, subject, until, why: reason })),
    print: printRaise,
  }),

  command("budgets topup <scope> <amount>", {
    summary: "add AMOUNT USD permanently to a budget --per total",
    options: { for: forSubject, why, json },
    settings: userSettings,
    ledger: "change",
    help: scopeHelp,
    examples: ['farebox budgets topup key:alice 100 --why "invoice 2026-11"'],
    run: async (tools, { for: subject, why: reason }, scope, amount) =>
      raised(tools, await topUpBudget(tools, { scope, amount, subject, why: reason })),
    print: printRaise,
  }),

  command("budgets remove <scope>", {
    summary: "remove a budget; its charges stay in the ledger",
    options: { per },
    settings: userSettings,
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

function sinceNote({ scope, period, counts_since: since }: StandingJson): readonly string[] {
  return since === undefined ? [] : [`note: ${scope} per ${period} counts the requests since ${since}`];
}

/**
 * Returns the amounts of raises, such as `2.50 until 2026-11-20T15:00:00.000Z, 1.00`: the 1.00 ends with the window.
 */
function raisesText({ raises, resets_at: resets }: StandingJson): string {
  return raises
    .map(({ amount_usd, until }) => (until === resets ? amount_usd : `${amount_usd} until ${until}`))
    .join(", ");
}

export function printStandings(io: Io, standings: readonly StandingJson[]): void {
  const usd = io.isTTY ? roundedUsd : (exact: string) => exact;
  printRows(io, standings, {
    scope: { cell: ({ scope }) => scope, narrow: "cut" },
    subject: { cell: ({ subject }) => subject, narrow: "cut" },
    period: ({ period }) => period,
    mode: { cell: ({ mode }) => mode, narrow: "drop" },
    limit: right(({ limit_usd }) => usd(limit_usd)),
    ...(standings.some(({ raised_usd }) => raised_usd !== formatUsd(noMoney)) && {
      raised: { cell: raisesText, narrow: "drop" },
    }),
    spent: right(({ spent_usd }) => usd(spent_usd)),
    held: right(({ held_usd }) => usd(held_usd), { narrow: "drop" }),
    remaining: right(({ remaining_usd }) => usd(remaining_usd)),
    resets: ({ resets_at }) => timeText(io, resets_at) ?? "never",
  });
}
