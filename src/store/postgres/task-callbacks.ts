import type { TaskCallback } from "../../ports/task-callbacks.ts";
import type { CallbackReadings } from "../readings.ts";
import type { Statements } from "./connection.ts";
import { withNumbers } from "../numbers.ts";

const columns = `select charge, digest, sealed, created_at as "createdAt" from task_callbacks`;

/** Short reads of callbacks. */
export class CallbackReads implements CallbackReadings {
  readonly #db: Statements;

  constructor(db: Statements) {
    this.#db = db;
  }

  async byDigest(digest: string): Promise<TaskCallback | undefined> {
    const row = await this.#db.row<TaskCallback>(`${columns} where digest = $1`, [digest]);
    return row && withNumbers(row);
  }

  async byCharge(charge: string): Promise<TaskCallback | undefined> {
    const row = await this.#db.row<TaskCallback>(`${columns} where charge = $1`, [charge]);
    return row && withNumbers(row);
  }
}

export async function putCallback(db: Statements, { charge, digest, sealed, createdAt }: TaskCallback): Promise<true> {
  await db.run("insert into task_callbacks (charge, digest, sealed, created_at) values ($1, $2, $3, $4)", [
    charge,
    digest,
    sealed,
    createdAt,
  ]);
  return true;
}
