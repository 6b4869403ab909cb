import { isOfSession } from "../core/scope.ts";
import type { StoredUser } from "../wire/headers.ts";
import type { Clock } from "../ports/clock.ts";
import type { KeyStore, TeamStore } from "../ports/stores.ts";
import type { BudgetStore } from "../ports/ledger.ts";
import type { CurrentState, PlannedChange, UseCaseCall } from "./apply-plan.ts";
import { removeBudget, setBudget } from "./budget-changes.ts";
import { createKey, revokeKey, updateKey, type CreatedKey } from "./key-changes.ts";
import type { Failure } from "./result.ts";
import { createTeam, removeTeam, updateTeam } from "./team-changes.ts";

interface ApplyTools {
  readonly ledger: BudgetStore;
  readonly keys: KeyStore;
  readonly teams: TeamStore;
  readonly clock: Clock;
  /** Author of the changes, for the audit. */
  readonly by: string;
  /** Function that returns the stored form of a user's name; null if users are not stored. */
  readonly storedUser?: StoredUser | null;
}

export async function readCurrentState({
  ledger,
  keys,
  teams,
}: Pick<ApplyTools, "ledger" | "keys" | "teams">): Promise<CurrentState> {
  const [allTeams, allKeys, budgets] = await Promise.all([teams.list(), keys.list(), ledger.budgets()]);
  // Budgets of sessions begin and end with their sessions, so a file never lists them.
  return { teams: allTeams, keys: allKeys, budgets: budgets.filter(({ scope }) => !isOfSession(scope)) };
}

export interface Applied {
  /** Changes that were made, in the plan's order. */
  readonly made: readonly PlannedChange[];
  /**
   * Change that stopped the run; null if all succeeded. If `made` ends with the same change, its key was created, but
   * the text of the key is lost.
   */
  readonly failed: { readonly change: PlannedChange; readonly message: string } | null;
}

/** Stores or shows the text of a new key. Returns null on success, otherwise the reason why the text is lost. */
type OnKey = (created: CreatedKey) => Promise<string | null>;

/**
 * Makes a plan's changes one after the other, all with the plan's time. Stops at the first failure. Passes each new
 * key's text to `onKey` as soon as the key exists: the text is not stored, so it would be lost if a later change
 * failed.
 */
export async function applyChanges(
  tools: ApplyTools,
  changes: readonly PlannedChange[],
  { at, onKey }: { readonly at: number; readonly onKey: OnKey },
): Promise<Applied> {
  const toolsAtPlanTime = { ...tools, clock: clockAt(at, tools.clock) };
  const made: PlannedChange[] = [];
  for (const change of changes) {
    const result = await makeChange(toolsAtPlanTime, change.call, onKey);
    if (!result.ok) return { made, failed: { change, message: result.message } };
    made.push(change);
    if (result.lost !== undefined) return { made, failed: { change, message: result.lost } };
  }
  return { made, failed: null };
}

async function makeChange(
  tools: ApplyTools,
  call: UseCaseCall,
  onKey: OnKey,
): Promise<{ readonly ok: true; readonly lost?: string } | Failure> {
  switch (call.action) {
    case "teams.create":
      return createTeam(tools, call.input);
    case "teams.update":
      return updateTeam(tools, call.name, call.input);
    case "teams.remove":
      return removeTeam(tools, call.name);
    case "keys.create": {
      const created = await createKey(tools, call.input);
      if (!created.ok) return created;
      const lost = await onKey(created);
      return { ok: true, ...(lost !== null && { lost }) };
    }
    case "keys.update":
      return updateKey(tools, call.name, call.input);
    case "keys.revoke":
      return revokeKey(tools, call.name);
    case "budgets.set":
      return setBudget(tools, call.input);
    case "budgets.remove":
      return removeBudget(tools, call);
  }
}

/**
 * Returns a clock that always shows the plan's time. The plan converts each expiry to a lifetime from that time, and
 * `createKey` adds the lifetime to the clock's time. So the key expires exactly at the stated instant.
 */
function clockAt(at: number, clock: Clock): Clock {
  return { now: () => at, monotonic: () => clock.monotonic(), after: (ms, callback) => clock.after(ms, callback) };
}
