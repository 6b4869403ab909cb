import type { Task } from "../../core/tasks.ts";
import type { Ledger, SettleResult } from "../../ports/ledger.ts";
import type {
  BindResult,
  DueQuery,
  DueTasks,
  NewTask,
  TaskEnding,
  TaskPage,
  TaskQuery,
  TaskSight,
  TaskStore,
} from "../../ports/task-store.ts";
import type { MemoryState } from "./state.ts";

/** Tasks in memory, beside the ledger over the same state. */
export class MemoryTaskStore implements TaskStore {
  readonly #state: MemoryState;
  readonly #ledger: Pick<Ledger, "post" | "void">;

  constructor(state: MemoryState, ledger: Pick<Ledger, "post" | "void">) {
    this.#state = state;
    this.#ledger = ledger;
  }

  async bind(task: NewTask): Promise<BindResult> {
    const known = this.#state.tasks.get(task.taskId);
    if (known !== undefined) return known.charge === task.charge ? { ok: true } : { ok: false, reason: "taken" };
    const charge = this.#state.charges.get(task.charge);
    if (
      charge?.state !== "pending" ||
      charge.kind !== "task" ||
      this.#all().some((each) => each.charge === task.charge)
    ) {
      return { ok: false, reason: "no_such_charge" };
    }
    this.#put({
      ...task,
      endedAt: null,
      settledAt: null,
      seenAt: task.createdAt,
      failure: null,
      consumption: null,
      unitsPerUsd: null,
    });
    return { ok: true };
  }

  async find(taskId: string): Promise<Task | undefined> {
    return this.#state.tasks.get(taskId);
  }

  async ofCharge(charge: string): Promise<Task | undefined> {
    return this.#all().find((task) => task.charge === charge);
  }

  async saw(taskId: string, sight: TaskSight): Promise<boolean> {
    const task = this.#state.tasks.get(taskId);
    if (task?.settledAt === null) this.#put({ ...task, ...sight });
    return true;
  }

  async end({ taskId, charge }: Pick<Task, "taskId" | "charge">, ending: TaskEnding): Promise<SettleResult> {
    const { settlement, end, inputs, status, startedAt, endedAt, failure } = ending;
    const result =
      settlement.kind === "void"
        ? await this.#ledger.void(charge, settlement.reason, end)
        : await this.#ledger.post(charge, settlement, end);
    const task = this.#state.tasks.get(taskId);
    if (result.ok && task?.settledAt === null) {
      this.#put({
        ...task,
        ...inputs,
        status,
        startedAt,
        endedAt,
        failure,
        seenAt: end.at,
        settledAt: end.at,
        nextPollAt: null,
      });
    }
    return result;
  }

  async due({ now, limit, pauseMsMax, besides }: DueQuery): Promise<DueTasks> {
    const waiting = this.#all()
      .filter(({ taskId, nextPollAt }) => nextPollAt !== null && !besides.includes(taskId))
      .sort((a, b) => (a.nextPollAt ?? 0) - (b.nextPollAt ?? 0));
    const isDue = ({ nextPollAt }: Task) => nextPollAt !== null && (nextPollAt <= now || nextPollAt > now + pauseMsMax);
    return {
      tasks: waiting.filter(isDue).slice(0, limit),
      nextPollAt: waiting.find((task) => !isDue(task))?.nextPollAt ?? null,
    };
  }

  async runningTasks(): ReturnType<TaskStore["runningTasks"]> {
    return this.#all().filter(({ settledAt, status }) => settledAt === null && status !== "completed");
  }

  async running(): Promise<number> {
    return this.#all().filter(({ settledAt }) => settledAt === null).length;
  }

  async list({ key, running, limit, after }: TaskQuery): Promise<TaskPage> {
    const newestFirst = this.#all().toReversed();
    const last = after === undefined ? -1 : newestFirst.findIndex(({ taskId }) => taskId === after);
    if (after !== undefined && last === -1) return { tasks: [], next: null };
    const matching = newestFirst
      .slice(last + 1)
      .filter(
        (task) =>
          (key === undefined || task.key === key) && (running === undefined || (task.settledAt === null) === running),
      );
    const tasks = matching.slice(0, limit);
    return { tasks, next: matching.length > limit ? (tasks.at(-1)?.taskId ?? null) : null };
  }

  #put(task: Task): void {
    this.#state.tasks.set(task.taskId, task);
  }

  #all(): Task[] {
    return [...this.#state.tasks.values()];
  }
}
