import type { LedgerQueries } from "../../../ports/ledger.ts";
import type { Store } from "../../../ports/stores.ts";
import { balanceJson, burnPerHour } from "../../../reporting/balance.ts";
import { type BalanceJson, balanceSchema } from "../../../reporting/shapes/figures.ts";
import { readAccount } from "../../../wire/account.ts";
import { found, routesFor, type Timed } from "./route.ts";

/** Stores and services that a balance needs. */
export interface BalanceTools extends Pick<Store, "figures" | "ledger">, Pick<Timed, "clock"> {
  /**
   * Returns the gateway's account record; undefined if there is none. It is at most `accountTtlMs` old if the gateway
   * answers.
   */
  readonly account: () => Promise<{ readonly body: unknown; readonly fetchedAt: number } | undefined>;
  readonly accountTtlMs: number;
}

const route = routesFor<BalanceTools>();

export const balanceRoutes = [
  route("GET /balance", {
    role: "viewer",
    summary: "Balance of the gateway's account, and how long it lasts",
    answer: balanceSchema,
    handle: async (tools) => {
      const balance = await balanceIn(tools.account(), tools.ledger, tools);
      if (balance !== null) return found(balance);
      return { ok: false, kind: "no_gateway", message: "the gateway returned no account record; try again later" };
    },
  }),
];

/**
 * Longest time that an overview waits for the gateway, in milliseconds. A later answer appears in the next overview.
 */
const balanceWaitMsMax = 50;

/** Returns the balance for an overview; null if the gateway has not answered in time. */
export function balanceInTime(deps: BalanceTools) {
  const late = new Promise<undefined>((resolve) => deps.clock.after(balanceWaitMsMax, () => resolve(undefined)));
  return balanceIn(Promise.race([deps.account(), late]), deps.figures.ledger, deps);
}

/** Returns the balance in an account record, and how long it lasts; null if there is no record. */
async function balanceIn(
  account: ReturnType<BalanceTools["account"]>,
  ledger: LedgerQueries,
  { accountTtlMs: ttlMs, clock }: BalanceTools,
): Promise<BalanceJson | null> {
  const [record, burn] = await Promise.all([account, burnPerHour(ledger, clock.now())]);
  if (record === undefined) return null;
  const { body, fetchedAt } = record;
  return balanceJson(readAccount(body), burn, { fetchedAt, now: clock.now(), ttlMs });
}
