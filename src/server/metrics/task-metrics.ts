import { taskFailures } from "../../core/tasks.ts";
import type { Events } from "../../ports/events.ts";
import { counts } from "./counters.ts";
import type { Family } from "./family.ts";
import { BoundedLabel, other } from "./labels.ts";
import { modelsMax } from "./limits.ts";

/** Counts ended tasks by status, and failed ones by reason. */
export function taskMetrics(): { readonly events: Pick<Events, "taskEnded">; readonly families: readonly Family[] } {
  const tasks = counts({
    name: "farebox_tasks_total",
    help: "Tasks that have ended, by model and by how they ended.",
    labels: ["model", "status"],
  });
  const failures = counts({
    name: "farebox_task_failures_total",
    help: "Tasks that failed, by what their errors mean.",
    labels: ["reason"],
  });
  // Asking for a series is enough: it starts at 0.
  for (const reason of taskFailures) failures.of(reason);
  const models = new BoundedLabel(modelsMax);
  return {
    families: [tasks, failures],
    events: {
      taskEnded({ model, status, failure }) {
        tasks.of(model === null ? other : models.of(model), status).add(1);
        if (failure !== null) failures.of(failure).add(1);
      },
    },
  };
}
