import type { BudgetWindow, Caller } from "../core/budget.ts";
import type { Key } from "../core/keys.ts";
import type { Ledger } from "../ports/ledger.ts";
import { isoTime, ownName } from "./names.ts";
import { standingOf } from "./standing.ts";

/** CONTRACT's `me`: what a key may do, and what each budget that weighs on it has left. Without a key, what weighs on all. */
export async function meJson(ledger: Ledger, key: Key | null, caller: Caller, at: number) {
  const windows: readonly BudgetWindow[] = await ledger.windowsOf(caller, at);
  return {
    key: key && {
      id: key.id,
      name: key.name,
      team: key.team,
      models: key.models,
      expires_at: key.expiresAt === null ? null : isoTime(key.expiresAt),
    },
    limits: {},
    budgets: windows.map((window) => standingOf(window, ownName(key))),
  };
}
