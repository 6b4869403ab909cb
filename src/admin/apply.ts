import { isOfSession } from "../core/budget.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore } from "../ports/key-store.ts";
import type { BudgetStore } from "../ports/ledger.ts";
import type { TeamStore } from "../ports/team-store.ts";
import type { PlannedChange, Present, Desired } from "./apply-plan.ts";
import { removeBudget, setBudget } from "./budgets.ts";
import { createKey, revokeKey, updateKey, type CreatedKey } from "./keys.ts";
import type { Failure } from "./result.ts";
import { createTeam, deleteTeam, updateTeam } from "./teams.ts";

export interface ApplyTools {
  readonly ledger: BudgetStore;
  readonly keys: KeyStore;
  readonly teams: TeamStore;
  readonly clock: Clock;
  /** Author of the changes, for the audit. */
  readonly by: string;
}

export async function readPresent({
  ledger,
  keys,
  teams,
}: Pick<ApplyTools, "ledger" | "keys" | "teams">): Promise<Present> {
  const [allTeams, allKeys, budgets] = await Promise.all([teams.list(), keys.list(), ledger.budgets()]);
  // No file speaks of the budgets of sessions: they come and go with them.
  return { teams: allTeams, keys: allKeys, budgets: budgets.filter(({ scope }) => !isOfSession(scope)) };
}

export interface Applied {
  /** Changes that were made: the first ones of the plan. */
  readonly made: readonly PlannedChange[];
  /** The change that failed and ended the run; null for none. */
  readonly failed: { readonly change: PlannedChange; readonly message: string } | null;
}

/**
 * Makes a plan's changes one after the other, all at the plan's instant. A new key's text is handed to `onKey` as soon as
 * the key is there: it is stored nowhere, so whatever happens next, it has been given out.
 */
export async function applyChanges(
  tools: ApplyTools,
  changes: readonly PlannedChange[],
  { at, onKey }: { readonly at: number; readonly onKey: (created: CreatedKey) => Promise<void> },
): Promise<Applied> {
  const atOnce = { ...tools, clock: clockAt(at, tools.clock) };
  const made: PlannedChange[] = [];
  for (const change of changes) {
    const result = await fulfil(atOnce, change.desired, onKey);
    if (!result.ok) return { made, failed: { change, message: result.message } };
    made.push(change);
  }
  return { made, failed: null };
}

async function fulfil(
  tools: ApplyTools,
  desired: Desired,
  onKey: (created: CreatedKey) => Promise<void>,
): Promise<{ readonly ok: true } | Failure> {
  switch (desired.action) {
    case "teams.create":
      return createTeam(tools, desired.input);
    case "teams.update":
      return updateTeam(tools, desired.name, desired.input);
    case "teams.delete":
      return deleteTeam(tools, desired.name);
    case "keys.create": {
      const created = await createKey(tools, desired.input);
      if (created.ok) await onKey(created);
      return created;
    }
    case "keys.update":
      return updateKey(tools, desired.name, desired.input);
    case "keys.revoke":
      return revokeKey(tools, desired.name);
    case "budgets.set":
      return setBudget(tools, desired.input);
    case "budgets.remove":
      return removeBudget(tools, desired);
  }
}

/** An expiry is stated as an instant and asked for as a time from now: so "now" must be the plan's. */
function clockAt(at: number, clock: Clock): Clock {
  return { now: () => at, monotonic: () => clock.monotonic(), after: (ms, callback) => clock.after(ms, callback) };
}
