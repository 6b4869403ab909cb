import type { OrRefused } from "../core/refusals.ts";
import { exceededCeiling, countTasks, type Task, type TaskCeilings } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import type { TaskStore } from "../ports/stores.ts";
import { readAccount } from "../wire/account.ts";
import type { AccountLookup } from "./account.ts";

/** Task to be created. */
export type TaskCandidate = Pick<Task, "charge" | "model" | "taskType">;

/**
 * Result of the check. The caller calls `leave` when the creation has ended. By then, the store has the task if one was
 * created.
 */
type CeilingAdmission = OrRefused<{ leave: () => void }>;

/** Refuses a task if the gateway's account already runs as many tasks as it may. */
export type AdmitTask = (candidate: TaskCandidate) => Promise<CeilingAdmission>;

/**
 * Longest time that a creation waits for the account record, in milliseconds. Without a record no limit is enforced.
 */
const patienceMs = 2_000;
/** Seconds until a client may try again. Longer than the pause before the first poll of a task. */
const retryAfterSeconds = 5;

const admitAll: AdmitTask = async () => ({ ok: true, leave() {} });

/**
 * Creates the check of the account's limits on running tasks. It counts running tasks and those being created. It
 * checks one candidate at a time, so that parallel creations cannot exceed a limit.
 */
export function createCeilingGate(deps: {
  readonly mode: "off" | "enforce";
  readonly account: { lookUp(): Promise<AccountLookup> };
  readonly tasks: Pick<TaskStore, "runningTasks">;
  readonly clock: Clock;
}): AdmitTask {
  if (deps.mode === "off") return admitAll;
  const { account, tasks, clock } = deps;
  const beingCreated = new Map<string, TaskCandidate>();
  let turn: Promise<unknown> = Promise.resolve();

  const check = async (candidate: TaskCandidate, ceilings: TaskCeilings): Promise<CeilingAdmission> => {
    // Copied before the query, because a creation that ends during the query may be missing from the query's result.
    const known = new Map(beingCreated);
    for (const task of await tasks.runningTasks()) known.set(task.charge, task);
    const exceeded = exceededCeiling(ceilings, countTasks(known.values()), candidate);
    if (exceeded !== null) return { ok: false, refusal: { code: "concurrency_limit", exceeded, retryAfterSeconds } };
    beingCreated.set(candidate.charge, candidate);
    return { ok: true, leave: () => void beingCreated.delete(candidate.charge) };
  };
  return async (candidate) => {
    const ceilings = await ceilingsInTime(account, clock);
    if (ceilings === null) return admitAll(candidate);
    const admission = turn.then(() => check(candidate, ceilings));
    turn = admission.catch(() => undefined);
    return admission;
  };
}

function ceilingsInTime(account: { lookUp(): Promise<AccountLookup> }, clock: Clock): Promise<TaskCeilings | null> {
  return new Promise((resolve, reject) => {
    const timer = clock.after(patienceMs, () => resolve(null));
    account
      .lookUp()
      .then((found) => resolve(found.ok ? readAccount(found.record.body).ceilings : null), reject)
      .finally(() => timer.cancel());
  });
}
