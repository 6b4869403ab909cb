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
  // Budgets of sessions begin and end with their sessions, so a file never lists them.
  return { teams: allTeams, keys: allKeys, budgets: budgets.filter(({ scope }) => !isOfSession(scope)) };
}

export interface Applied {
  /** Changes that were made, in the plan's order. */
  readonly made: readonly PlannedChange[];
  /** The change that failed and stopped the run; null if all succeeded. */
  readonly failed: { readonly change: PlannedChange; readonly message: string } | null;
}

/**
 * Makes a plan's changes one after the other, all with the plan's time. Passes each new key's text to `onKey` as soon as the
 * key exists: the text is not stored, so it would be lost if a later change failed.
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

/**
 * Returns a clock whose present time is the plan's. The file states an expiry as an instant, but a key takes a lifetime from
 * now.
 */
function clockAt(at: number, clock: Clock): Clock {
  return { now: () => at, monotonic: () => clock.monotonic(), after: (ms, callback) => clock.after(ms, callback) };
}
