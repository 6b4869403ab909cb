import { expect, it } from "vitest";
import type { Task } from "../../../src/core/tasks.ts";
import type { RecordFetcher } from "../../../src/request/fetch-whole.ts";
import type { TaskTracker } from "../../../src/request/task-tracker.ts";
import { pollTask } from "../../../src/request/task-retrieval.ts";

it.each([
  ['{"status":"error","message":"rate limited"}', ["failed poll"]],
  ['{"code":500,"data":null}', ["failed poll"]],
  ['{"code":200,"data":{"task_id":"t-1","status":"failed"}}', ["failed"]],
  [undefined, ["failed poll"]],
])("a poll that is answered with %s does not settle the task by an error of the gateway", async (answer, expected) => {
  const seen: string[] = [];
  const records = { fetch: () => Promise.resolve(answer && Buffer.from(answer)) };
  const tracker: Pick<TaskTracker, "onPollFailed" | "onRecord"> = {
    onPollFailed: () => Promise.resolve(void seen.push("failed poll")),
    onRecord: (_task, { status }) => Promise.resolve(void seen.push(status)),
  };
  await pollTask(records as unknown as RecordFetcher, tracker as TaskTracker)({ taskId: "t-1" } as Task);
  expect(seen).toEqual(expected);
});
