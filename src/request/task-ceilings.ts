import type { Refusal } from "../core/refusals.ts";
import { ceilingMet, countTasks, type Task, type TaskCeilings } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import type { TaskStore } from "../ports/task-store.ts";
import { readAccount } from "../wire/account.ts";
import type { AccountLookup } from "./account.ts";

/** A task to be created. */
export type Candidate = Pick<Task, "charge" | "model" | "taskType">;

type CeilingAdmission =
  /** Call `leave` when the creation has ended: from then on the store counts the task. */
  { readonly ok: true; readonly leave: () => void } | { readonly ok: false; readonly refusal: Refusal };

/** Refuses a task beyond those that the gateway's account may run at once. */
export type AdmitTask = (candidate: Candidate) => Promise<CeilingAdmission>;

/** Longest wait of a creation for the account record, in milliseconds; without a record nothing is enforced. */
const patienceMs = 2_000;
/** Seconds until a client may try again: the interval at which young tasks are polled. */
const retryAfterSeconds = 5;

const admitAll: AdmitTask = async () => ({ ok: true, leave() {} });

/**
 * Counts running tasks and those being created, for one candidate after the other: of many at once, exactly as many are
 * admitted as there is room for.
 */
export function createCeilingGate(deps: {
  readonly mode: "off" | "enforce";
  readonly account: { lookUp(): Promise<AccountLookup> };
  readonly tasks: Pick<TaskStore, "runningTasks">;
  readonly clock: Clock;
}): AdmitTask {
  if (deps.mode === "off") return admitAll;
  const { account, tasks, clock } = deps;
  const beingCreated = new Map<string, Candidate>();
  let turn: Promise<unknown> = Promise.resolve();

  const judge = async (candidate: Candidate, ceilings: TaskCeilings): Promise<CeilingAdmission> => {
    // A creation that ends while the store is read would be counted nowhere, so it is counted as before.
    const known = new Map(beingCreated);
    for (const task of await tasks.runningTasks()) known.set(task.charge, task);
    const met = ceilingMet(ceilings, countTasks(known.values()), candidate);
    if (met !== null) return { ok: false, refusal: { code: "concurrency_limit", met, retryAfterSeconds } };
    beingCreated.set(candidate.charge, candidate);
    return { ok: true, leave: () => void beingCreated.delete(candidate.charge) };
  };
  return async (candidate) => {
    const ceilings = await ceilingsInTime(account, clock);
    if (ceilings === null) return admitAll(candidate);
    const admission = turn.then(() => judge(candidate, ceilings));
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
