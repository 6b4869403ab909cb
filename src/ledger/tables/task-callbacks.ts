import type { TaskCallback, TaskCallbacks } from "../../ports/task-callbacks.ts";
import { insert, one, type Table } from "./table.ts";

const select = `select charge, digest, sealed, created_at as "createdAt" from task_callbacks`;

export const callbacks: Table<TaskCallbacks, "put"> = {
  queries: {
    byDigest: (digest) => one<TaskCallback>(`${select} where digest = ?`, digest),
    byCharge: (charge) => one<TaskCallback>(`${select} where charge = ?`, charge),
  },
  announces: false,
  unavailable: { put: false },
  writes: {
    put: ({ charge, digest, sealed, createdAt }) =>
      insert("task_callbacks", { charge, digest, sealed, created_at: createdAt }),
  },
};
