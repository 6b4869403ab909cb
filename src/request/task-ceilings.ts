import type { Refusal } from "../core/refusals.ts";
import { ceilingMet, countTasks, type Task, type TaskCeilings } from "../core/tasks.ts";
import type { Clock } from "../ports/clock.ts";
import type { TaskStore } from "../ports/task-store.ts";
import { readAccount } from "../wire/account.ts";
import type { AccountLookup } from "./account.ts";

/** A task that is about to be made. */
export type Candidate = Pick<Task, "charge" | "model" | "taskType">;

type CeilingAdmission =
  /** `leave` once its creation has ended: from then on the store says whether it runs. */
  { readonly ok: true; readonly leave: () => void } | { readonly ok: false; readonly refusal: Refusal };

/** The step that lets no more tasks run than the gateway's account may run at once. */
export type AdmitTask = (candidate: Candidate) => Promise<CeilingAdmission>;

/** A creation waits so long for the account record; without one nothing is enforced. Milliseconds. */
const patienceMs = 2_000;
/** Seconds until a client may try again: the interval at which young tasks are polled. */
const retryAfterSeconds = 5;

const everybody: AdmitTask = async () => ({ ok: true, leave() {} });

/**
 * Counts the tasks that the store knows to run and those that are being made, one candidate after the other, so that of
 * many at once exactly as many are admitted as there is room for.
 */
export function createCeilingGate(deps: {
  readonly mode: "off" | "enforce";
  readonly account: { lookUp(): Promise<AccountLookup> };
  readonly tasks: Pick<TaskStore, "runningTasks">;
  readonly clock: Clock;
}): AdmitTask {
  if (deps.mode === "off") return everybody;
  const { account, tasks, clock } = deps;
  const inTheMaking = new Map<string, Candidate>();
  let turn: Promise<unknown> = Promise.resolve();

  const judge = async (candidate: Candidate, ceilings: TaskCeilings): Promise<CeilingAdmission> => {
    // One that is bound and leaves while the store is read is in neither later on: it is counted as it was before.
    const known = new Map(inTheMaking);
    for (const task of await tasks.runningTasks()) known.set(task.charge, task);
    const met = ceilingMet(ceilings, countTasks(known.values()), candidate);
    if (met !== null) return { ok: false, refusal: { code: "concurrency_limit", met, retryAfterSeconds } };
    inTheMaking.set(candidate.charge, candidate);
    return { ok: true, leave: () => void inTheMaking.delete(candidate.charge) };
  };
  return async (candidate) => {
    const ceilings = await ceilingsInTime(account, clock);
    if (ceilings === null) return everybody(candidate);
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
