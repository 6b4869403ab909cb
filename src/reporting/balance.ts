import { add, formatUsd, formatUsdOrNull, noMoney, type PicoUsd } from "../core/money.ts";
import type { LedgerQueries } from "../ports/ledger.ts";
import type { Account } from "../wire/account.ts";
import { hourMs, isoTime } from "../core/time.ts";
import type { BalanceJson } from "./shapes/figures.ts";
import { quarterHours } from "./report.ts";

const burnHours = 24n;

/** Returns the average hourly cost of posted charges over the 24 hours that end with the current quarter hour. */
export async function burnPerHour(ledger: LedgerQueries, now: number): Promise<PicoUsd> {
  const { until } = quarterHours(now, now);
  const rows = await ledger.spend({ by: [], each: "all", since: until - Number(burnHours) * hourMs, until });
  const spent = rows.reduce((total, row) => add(total, row.cost), noMoney);
  return (spent / burnHours) as PicoUsd;
}

/** Returns the account's balance, and the hours until it is used up if each hour costs `burn`. */
export function balanceJson(
  account: Account,
  burn: PicoUsd,
  times: { readonly fetchedAt: number; readonly now: number; readonly ttlMs: number },
): BalanceJson {
  const ageMs = Math.max(times.now - times.fetchedAt, 0);
  return {
    balance_usd: formatUsdOrNull(account.balance),
    available_credits: account.credits.available,
    credits: account.credits,
    plan: account.plan,
    type: account.type,
    fetched_at: isoTime(times.fetchedAt),
    age_seconds: Math.floor(ageMs / 1000),
    stale: ageMs > times.ttlMs,
    burn_usd_per_hour: formatUsd(burn),
    hours_left: account.balance === null || burn <= 0n ? null : hoursOf(account.balance, burn),
  };
}

/** Returns the hours that a balance lasts, rounded down to tenths; 0 if the balance is used up. */
function hoursOf(balance: PicoUsd, burn: PicoUsd): number {
  return balance <= 0n ? 0 : Number((balance * 10n) / burn) / 10;
}
