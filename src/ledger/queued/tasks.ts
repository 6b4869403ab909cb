import type { TaskStore } from "../../ports/task-store.ts";
import { postCommand, voidCommand } from "../commands.ts";
import type { CommandQueue } from "../queue.ts";
import { bind, type RunQuery } from "../tables/bind.ts";

const unavailable = { ok: false, reason: "unavailable" } as const;

/** Tasks in the ledger's database, bound and ended by commands of the writer. */
export function taskStore(query: RunQuery, queue: CommandQueue): TaskStore {
  return {
    ...bind("tasks", query, queue),
    async bind(task) {
      const answer = await queue.submit(["bindTask", task]);
      return answer.ok ? answer.reply : unavailable;
    },
    async observe(taskId, observation) {
      return (await queue.submit(["observeTask", taskId, observation])).ok;
    },
    async end({ taskId, charge }, { settlement, end, ...facts }) {
      const settling =
        settlement.kind === "void" ? voidCommand(charge, settlement.reason, end) : postCommand(charge, settlement, end);
      const answer = await queue.submit(["endTask", settling, taskId, { ...facts, at: end.at }]);
      return answer.ok ? answer.reply : unavailable;
    },
  };
}
