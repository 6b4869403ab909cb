import type { Task } from "../../core/tasks.ts";
import type { SettleResult } from "../../ports/ledger.ts";
import type {
  BindResult,
  DueQuery,
  DueTasks,
  NewTask,
  TaskEnding,
  TaskPage,
  TaskQuery,
  TaskObservation,
  TaskStore,
} from "../../ports/task-store.ts";
import { postCommand, voidCommand } from "../commands.ts";
import type { CommandQueue } from "../queue.ts";
import type { RunningTasks, TaskReadings } from "../readings.ts";

const unavailable = { ok: false, reason: "unavailable" } as const;

/** Tasks in the ledger's database: writes through the queue of the writer. */
export class QueuedTaskStore implements TaskStore {
  readonly #queue: CommandQueue;
  readonly #reads: TaskReadings;

  constructor(queue: CommandQueue, reads: TaskReadings) {
    this.#queue = queue;
    this.#reads = reads;
  }

  async bind(task: NewTask): Promise<BindResult> {
    const answer = await this.#queue.submit(["bindTask", task]);
    return answer.ok ? answer.reply : unavailable;
  }

  async find(taskId: string): Promise<Task | undefined> {
    return this.#reads.find(taskId);
  }

  async ofCharge(charge: string): Promise<Task | undefined> {
    return this.#reads.ofCharge(charge);
  }

  async observe(taskId: string, sight: TaskObservation): Promise<boolean> {
    return (await this.#queue.submit(["sawTask", taskId, sight])).ok;
  }

  async end({ taskId, charge }: Pick<Task, "taskId" | "charge">, ending: TaskEnding): Promise<SettleResult> {
    const { settlement, end, ...facts } = ending;
    const settling =
      settlement.kind === "void" ? voidCommand(charge, settlement.reason, end) : postCommand(charge, settlement, end);
    const answer = await this.#queue.submit(["endTask", settling, taskId, { ...facts, at: end.at }]);
    return answer.ok ? answer.reply : unavailable;
  }

  async due(query: DueQuery): Promise<DueTasks> {
    return this.#reads.due(query);
  }

  async running(): Promise<number> {
    return this.#reads.running();
  }

  async runningTasks(): Promise<RunningTasks> {
    return this.#reads.runningTasks();
  }

  async list(query: TaskQuery): Promise<TaskPage> {
    return this.#reads.list(query);
  }
}
