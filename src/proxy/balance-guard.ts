import { formatUsd, type PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Log } from "../ports/log.ts";
import { readAccount } from "../wire/account.ts";
import type { AccountLookup } from "./account.ts";

/** Why nothing is to be forwarded now; null while the balance is above the floor, or unknown. */
export type BalanceGuard = () => Promise<Refusal | null>;

/** Turns requests away while the gateway's balance is known to be under the floor. Reads the remembered account record. */
export function createBalanceGuard(parts: {
  readonly account: { lookUp(): Promise<AccountLookup> };
  readonly floor: PicoUsd | null;
  readonly log: Log;
}): BalanceGuard {
  const { account, floor, log } = parts;
  if (floor === null) return async () => null;
  let wasBelow = false;
  return async () => {
    const found = await account.lookUp();
    const balance = found.ok ? readAccount(found.record.body).balance : null;
    const isBelow = balance !== null && balance < floor;
    if (isBelow && !wasBelow) log.warn({ balance_usd: formatUsd(balance), floor_usd: formatUsd(floor) }, "the balance is under its floor");
    wasBelow = isBelow;
    return isBelow ? { code: "balance_floor" } : null;
  };
}
