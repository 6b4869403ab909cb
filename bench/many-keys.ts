import { createHash } from "node:crypto";
import type { Connection } from "../src/ledger/sqlite/connection.ts";

/** The id of the key of a number. */
export function keyId(index: number): string {
  return `bench${index}`;
}

/** The text of the key of a number: the load generator and the ledger both know it. */
export function keyText(index: number): string {
  return `sk-fb-${keyId(index)}-${String(index).padStart(24, "0")}`;
}

/** Writes so many keys, as the writer would have, and for each a hard budget of its own that never runs out. */
export function addKeys(db: Connection, count: number): void {
  const key = db.prepare("insert into keys (id, name, team, digest, created_at) values (?, ?, null, ?, 0)");
  const budget = db.prepare(
    "insert into budgets (scope, period, mode, amount_limit, warn_percent) values (?, 'total', 'hard', 1000000000000000000, null)",
  );
  for (let index = 0; index < count; index++) {
    const id = keyId(index);
    key.run(id, `bench-${index}`, createHash("sha256").update(keyText(index)).digest("hex"));
    budget.run(`key:${id}`);
  }
}
