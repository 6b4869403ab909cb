import { shownDatabase } from "../config/database.ts";
import { creditKinds } from "../core/account.ts";
import { noMoney } from "../core/money.ts";
import { balanceJson, burnPerHour } from "../reporting/balance.ts";
import { readAccount } from "../wire/account.ts";
import { command, json, refusal } from "./command.ts";
import { printFields } from "./table.ts";
import { gatewaySettings, ledgerSettings, storeProblem, type Tools } from "./tools.ts";

export const commands = [
  command("balance", {
    options: { json },
    settings: [...gatewaySettings, "balance_ttl", ...ledgerSettings],
    needs: ["gateway_url", "gateway_api_key"],
    examples: ["farebox balance --json"],
    run: async (tools) => {
      const { fetchAccount, clock, settings } = tools;
      const burn = await burnOf(tools);
      if (typeof burn === "string") return refusal(burn);
      const reading = await fetchAccount(settings, clock);
      if (!reading.ok) return refusal(reading.message, 1);
      const { ttlMs } = settings.balance;
      const { record, fetchedAt } = reading;
      return balanceJson(readAccount(record), burn, { fetchedAt, now: clock.now(), ttlMs });
    },
    print: (io, balance) =>
      printFields(io, [
        ["balance", balance.balance_usd === null ? "unknown" : `USD ${balance.balance_usd}`],
        ...creditKinds.map((kind) => [`${kind} credits`, balance.credits[kind] ?? "unknown"] as const),
        ["plan", planText(balance)],
        ["burn", `USD ${balance.burn_usd_per_hour} an hour over the last 24`],
        ["lasts", balance.hours_left === null ? "unknown" : `${balance.hours_left} hours`],
      ]),
    notes: ({ balance_usd }) =>
      balance_usd === null ? ["note: the account record holds no balance in USD (equivalent_in_usd)"] : [],
  }),
];

function planText({ plan, type }: { readonly plan: string | null; readonly type: string | null }): string {
  return [plan, type].filter((part) => part !== null).join(", ") || "unknown";
}

/** Returns the spending per hour, or a message if the ledger cannot be opened. A missing ledger means no spending. */
async function burnOf({ openLedger, settings, clock }: Tools) {
  const opening = await openLedger("read");
  if (!opening.ok) {
    if (opening.failure.kind === "missing") return noMoney;
    return storeProblem(opening.failure, shownDatabase(settings.database));
  }
  await using store = opening.store;
  return await burnPerHour(store.ledger, clock.now());
}
