import { creditKinds } from "../core/account.ts";
import { noMoney } from "../core/money.ts";
import { balanceJson, burnPerHour } from "../reporting/balance.ts";
import { readAccount } from "../wire/account.ts";
import { command, json } from "./command.ts";
import { commandFailure } from "./io.ts";
import { printFields } from "./table.ts";
import { gatewaySettings, ledgerSettings, type Tools } from "./tools.ts";

export const commands = [
  command("balance", {
    options: { json },
    settings: [...gatewaySettings, "balance_ttl", ...ledgerSettings],
    needs: ["gateway_url", "gateway_api_key"],
    examples: ["farebox balance --json"],
    run: async (tools) => {
      const { fetchAccount, clock, settings } = tools;
      const burn = await burnOf(tools);
      if (typeof burn !== "bigint") return burn;
      const fetched = await fetchAccount(settings, clock);
      if (!fetched.ok) return commandFailure(fetched.message, 1);
      const { ttlMs } = settings.balance;
      const { record, fetchedAt } = fetched;
      return balanceJson(readAccount(record), burn, { fetchedAt, now: clock.now(), ttlMs });
    },
    print: (io, balance) =>
      printFields(io, [
        ["balance", balance.balance_usd === null ? "unknown" : `USD ${balance.balance_usd}`],
        ...creditKinds.map((kind) => [`${kind} credits`, balance.credits[kind] ?? "unknown"] as const),
        ["plan", planText(balance)],
        ["burn", `USD ${balance.burn_usd_per_hour} an hour over the last 24 hours`],
        ["lasts", balance.hours_left === null ? "unknown" : `${balance.hours_left} hours`],
      ]),
    notes: ({ balance_usd }) =>
      balance_usd === null ? ["note: the account record has no balance in USD (equivalent_in_usd)"] : [],
  }),
];

function planText({ plan, type }: { readonly plan: string | null; readonly type: string | null }): string {
  return [plan, type].filter((part) => part !== null).join(", ") || "unknown";
}

/** Returns the spending per hour; 0 if there is no ledger yet. Returns a failure if the ledger cannot be opened. */
async function burnOf({ openLedger, clock }: Tools) {
  const opening = await openLedger("read");
  if (!opening.ok) return opening.isMissing ? noMoney : opening;
  await using store = opening.store;
  return await burnPerHour(store.ledger, clock.now());
}
