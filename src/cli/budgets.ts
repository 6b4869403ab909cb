import { Option, type Command } from "commander";
import { listBudgets, newBudgetFault, removeBudget, setBudget, type NewBudget } from "../admin/budgets.ts";
import { budgetFacts } from "../core/audit.ts";
import { periods, type Period } from "../core/budget.ts";
import { keyNames } from "../reporting/names.ts";
import type { StandingJson } from "../reporting/shapes/keys.ts";
import { standingOf } from "../reporting/standing.ts";
import { percentArgument } from "./arguments.ts";
import { changedBy, storeSettings, withStore, type CliContext, type OpenStore } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson, printLine, type Io } from "./io.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printTable } from "./table.ts";

const scopeHelp = `
SCOPE is one of
  all             everything together
  key:NAME        one key, by its name or id
  team:NAME       the keys of a team together
  each-key        every key for itself
  each-key:TEAM   every key of a team for itself
PERIOD is total, or a calendar window in the time zone: 1h, 1d, 1w (from Monday), 1mo`;

export function registerBudgets(program: Command, context: CliContext): void {
  const budgets = program.command("budgets").description("limit what may be spent");
  registerSet(budgets, context);
  registerList(budgets, context);
  registerRemove(budgets, context);
}

interface SetOptions {
  readonly per: Period;
  readonly soft?: true;
  readonly warn?: number;
  readonly json?: true;
}

function registerSet(budgets: Command, context: CliContext): void {
  const { io } = context;
  const command = budgets
    .command("set <scope> <limit>")
    .description("add a budget of LIMIT USD, or change the one of the same scope and period")
    .addOption(periodOption())
    .option("--soft", "only warn: never refuse a request")
    .option("--warn <share>", "share of the limit at which to warn, such as 80%", percentArgument)
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  command.addHelpText("after", scopeHelp);
  example(
    command,
    "farebox budgets set key:alice 25 --per 1mo --warn 80%",
    "farebox budgets set each-key 2.50 --per 1d",
  );
  command.action(
    context.run(async (scope: string, limit: string, options: SetOptions) => {
      const wanted: NewBudget = {
        scope,
        limit,
        period: options.per,
        mode: options.soft ? "soft" : "hard",
        warnPercent: options.warn ?? null,
      };
      // Before the store is opened: a wrong wish must not leave a new database behind.
      const fault = newBudgetFault(wanted);
      if (fault !== null) return fail(io, fault.message);
      // A key's budget needs a key, and so a ledger that is there; the others may come before anything else.
      const intent = scope.startsWith("key:") ? "change" : "create";
      return await withStore(context, command, intent, async (store) => {
        const set = await setBudget(toolsOf(store, context), wanted);
        if (!set.ok) return fail(io, set.message);
        const json = budgetFacts(set.budget, await keyNames(store.keys));
        if (options.json) printJson(io, json);
        else printLine(io, `${json.scope}: USD ${json.limit_usd} per ${json.period}, ${json.mode}`);
        if (set.note !== null) note(io, `note: ${set.note}`);
        return 0;
      });
    }),
  );
}

function registerList(budgets: Command, context: CliContext): void {
  const { io } = context;
  const command = budgets
    .command("list")
    .description("list budgets with what is spent and held in their present windows")
    .option("--json", "print JSON");
  addSettingFlags(command, storeSettings);
  example(command, "farebox budgets list");
  command.action(
    context.run((options: { json?: true }) =>
      withStore(context, command, "read", async (store) => {
        const nameOf = await keyNames(store.keys);
        const standings = (await listBudgets(toolsOf(store, context))).map((window) => standingOf(window, nameOf));
        if (options.json) printJson(io, { budgets: standings });
        else printStandings(io, standings);
        return 0;
      }),
    ),
  );
}

function registerRemove(budgets: Command, context: CliContext): void {
  const { io } = context;
  const command = budgets
    .command("remove <scope>")
    .description("remove a budget; what was spent stays in the ledger")
    .addOption(periodOption());
  addSettingFlags(command, storeSettings);
  command.addHelpText("after", scopeHelp);
  example(command, "farebox budgets remove key:alice --per 1mo");
  command.action(
    context.run((scope: string, options: { per: Period }) =>
      withStore(context, command, "change", async (store) => {
        const removed = await removeBudget(toolsOf(store, context), { scope, period: options.per });
        if (!removed.ok) return fail(io, removed.message);
        printLine(io, `removed the budget of ${scope} per ${options.per}`);
        return 0;
      }),
    ),
  );
}

function periodOption(): Option {
  return new Option("--per <period>", "over which the limit holds").choices(periods).makeOptionMandatory();
}

function toolsOf(store: OpenStore, context: CliContext) {
  const { clock } = context.adapters;
  return { ledger: store.ledger, keys: store.keys, calendar: store.calendar, clock, by: changedBy(context) };
}

export function printStandings(io: Io, standings: readonly StandingJson[]): void {
  printTable(
    io,
    [
      { title: "scope" },
      { title: "key" },
      { title: "period" },
      { title: "mode" },
      { title: "limit", align: "right" },
      { title: "spent", align: "right" },
      { title: "held", align: "right" },
      { title: "remaining", align: "right" },
      { title: "resets" },
    ],
    standings.map((row) => [
      row.scope,
      row.key,
      row.period,
      row.mode,
      row.limit_usd,
      row.spent_usd,
      row.held_usd,
      row.remaining_usd,
      row.resets_at ?? "never",
    ]),
  );
}
