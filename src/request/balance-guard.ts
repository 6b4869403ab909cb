import { formatUsd, type PicoUsd } from "../core/money.ts";
import type { Refusal } from "../core/refusals.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { readAccount } from "../wire/account.ts";
import type { AccountLookup } from "./account.ts";

/** Returns a refusal while the balance is known to be below the floor; null otherwise. */
export type BalanceGuard = () => Refusal | null | Promise<Refusal | null>;

/**
 * Longest wait of a request for the gateway's record, in milliseconds. After such a wait, requests do not wait until the
 * record has arrived.
 */
const patienceMs = 2_000;

/**
 * Creates a guard that refuses requests while the gateway's balance is known to be below the floor. It reads the cached
 * account record.
 */
export function createBalanceGuard(deps: {
  readonly account: { lookUp(): Promise<AccountLookup> };
  readonly clock: Clock;
  readonly floor: PicoUsd | null;
  readonly log: Log;
}): BalanceGuard {
  const { account, clock, floor, log } = deps;
  if (floor === null) return () => null;
  let isBelow = false;
  let isSlow = false;
  const check = async (): Promise<void> => {
    const found = await account.lookUp();
    const balance = found.ok ? readAccount(found.record.body).balance : null;
    const wasBelow = isBelow;
    isBelow = balance !== null && balance < floor;
    isSlow = false;
    if (isBelow && !wasBelow && balance !== null)
      log.warn({ balance_usd: formatUsd(balance), floor_usd: formatUsd(floor) }, "the balance is under its floor");
  };
  const checkInTime = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const timer = clock.after(patienceMs, () => {
        isSlow = true;
        resolve();
      });
      check()
        .then(resolve, reject)
        .finally(() => timer.cancel());
    });
  return async () => {
    if (isSlow) void check().catch((error: unknown) => log.error({ err: error }, "the balance could not be checked"));
    else await checkInTime();
    return isBelow ? { code: "balance_floor" } : null;
  };
}
