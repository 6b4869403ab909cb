import type { TaskCallback } from "../../ports/task-callbacks.ts";
import type { CallbackReadings } from "../readings.ts";
import type { Connection, Statement } from "./connection.ts";

/** Short reads of callbacks, on whichever connection. */
export class CallbackReads implements CallbackReadings {
  readonly #byDigest: Statement;
  readonly #byCharge: Statement;

  constructor(db: Connection) {
    const columns = "select charge, digest, sealed, created_at createdAt from task_callbacks";
    this.#byDigest = db.prepare(`${columns} where digest = ?`);
    this.#byCharge = db.prepare(`${columns} where charge = ?`);
  }

  byDigest(digest: string): TaskCallback | undefined {
    return this.#byDigest.get(digest) as TaskCallback | undefined;
  }

  byCharge(charge: string): TaskCallback | undefined {
    return this.#byCharge.get(charge) as TaskCallback | undefined;
  }
}

export function putCallback(db: Connection, callback: TaskCallback): true {
  db.prepare(
    "insert into task_callbacks (charge, digest, sealed, created_at) values (:charge, :digest, :sealed, :createdAt)",
  ).run(callback);
  return true;
}
