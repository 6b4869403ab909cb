import type { Command } from "commander";
import { shownDatabase } from "../config/database.ts";
import type { SettingName } from "../config/table.ts";
import { creditKinds } from "../core/account.ts";
import { noMoney, type PicoUsd } from "../core/money.ts";
import { balanceJson, burnPerHour } from "../reporting/balance.ts";
import { readAccount } from "../wire/account.ts";
import { settingsFor, storeProblem, storeSettings, type CliContext } from "./context.ts";
import { example } from "./help.ts";
import { fail, note, printJson } from "./io.ts";
import type { Settings } from "../config/settings.ts";
import { addSettingFlags } from "./setting-flags.ts";
import { printFields } from "./table.ts";

const usedSettings: readonly SettingName[] = [
  "gateway_url",
  "gateway_insecure",
  "gateway_api_key",
  "gateway_timeout",
  "balance_ttl",
  ...storeSettings,
];

/** `balance`: what the account has left, asked of the gateway now, and how long that lasts. */
export function registerBalance(program: Command, context: CliContext): void {
  const { io, adapters } = context;
  const command = program
    .command("balance")
    .description("ask the gateway for the account's balance and tell how long it lasts")
    .option("--json", "print JSON");
  addSettingFlags(command, usedSettings);
  example(command, "farebox balance --json");
  command.action(
    context.run(async (options: { json?: true }) => {
      const loaded = settingsFor(context, command, { uses: usedSettings, needs: ["gateway_url", "gateway_api_key"] });
      if (!loaded.ok) return fail(io, loaded.problems);
      const { settings } = loaded;
      const burn = await burnOf(context, settings);
      if (!burn.ok) return fail(io, burn.problem);
      const reading = await adapters.fetchAccount(settings);
      if (!reading.ok) return fail(io, reading.message, 1);
      const balance = balanceJson(readAccount(reading.record), burn.amount, {
        fetchedAt: reading.fetchedAt,
        now: adapters.clock.now(),
        ttlMs: settings.balance.ttlMs,
      });
      if (options.json) printJson(io, balance);
      else {
        printFields(io, [
          ["balance", balance.balance_usd === null ? "unknown" : `USD ${balance.balance_usd}`],
          ...creditKinds.map((kind) => [`${kind} credits`, balance.credits[kind] ?? "unknown"] as const),
          ["plan", planText(balance)],
          ["burn", `USD ${balance.burn_usd_per_hour} an hour over the last 24`],
          ["lasts", balance.hours_left === null ? "unknown" : `${balance.hours_left} hours`],
        ]);
      }
      if (balance.balance_usd === null)
        note(io, "note: the account record holds no balance in USD (equivalent_in_usd)");
      return 0;
    }),
  );
}

function planText({ plan, type }: { readonly plan: string | null; readonly type: string | null }): string {
  return [plan, type].filter((part) => part !== null).join(", ") || "unknown";
}

type Burn = { readonly ok: true; readonly amount: PicoUsd } | { readonly ok: false; readonly problem: string };

/** Where there is no ledger yet nothing has been spent through Farebox. */
async function burnOf(context: CliContext, settings: Settings): Promise<Burn> {
  const opening = await context.adapters.openStore(settings, "read");
  if (!opening.ok) {
    if (opening.failure.kind === "missing") return { ok: true, amount: noMoney };
    return { ok: false, problem: storeProblem(opening.failure, shownDatabase(settings.database)) };
  }
  await using store = opening.store;
  return { ok: true, amount: await burnPerHour(store.ledger, context.adapters.clock.now()) };
}
