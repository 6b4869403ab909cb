import type { TaskCallback, TaskCallbacks } from "../../ports/task-callbacks.ts";
import type { Connection, Statement } from "./connection.ts";
import type { CommandQueue } from "./queue.ts";

/** Callbacks in the ledger's file: writes through the queue of the one writer, short reads on this thread. */
export class SqliteTaskCallbacks implements TaskCallbacks {
  readonly #queue: CommandQueue;
  readonly #byDigest: Statement;
  readonly #byCharge: Statement;

  constructor(queue: CommandQueue, db: Connection) {
    const columns = "select charge, digest, sealed, created_at createdAt from task_callbacks";
    this.#queue = queue;
    this.#byDigest = db.prepare(`${columns} where digest = ?`);
    this.#byCharge = db.prepare(`${columns} where charge = ?`);
  }

  async put(callback: TaskCallback): Promise<boolean> {
    return (await this.#queue.submit(["putCallback", callback])).ok;
  }

  async byDigest(digest: string): Promise<TaskCallback | undefined> {
    return this.#byDigest.get(digest) as TaskCallback | undefined;
  }

  async byCharge(charge: string): Promise<TaskCallback | undefined> {
    return this.#byCharge.get(charge) as TaskCallback | undefined;
  }
}

export function putCallback(db: Connection, callback: TaskCallback): true {
  db.prepare("insert into task_callbacks (charge, digest, sealed, created_at) values (:charge, :digest, :sealed, :createdAt)").run(callback);
  return true;
}
