import { createHash } from "node:crypto";
import type { Connection } from "../src/ledger/sqlite/connection.ts";

/** Returns the id of the key with this number. */
export function keyId(index: number): string {
  return `bench${index}`;
}

/** Returns the secret of the key with this number. */
export function keyText(index: number): string {
  return `sk-fb-${keyId(index)}-${String(index).padStart(24, "0")}`;
}

/** Writes `count` keys, each with its own hard budget that is never exhausted. */
export function addKeys(db: Connection, count: number): void {
  const key = db.prepare("insert into keys (id, name, team, digest, created_at) values (?, ?, null, ?, 0)");
  const budget = db.prepare(
    `insert into budgets (scope, anchor, period, mode, amount_limit, warn_percent, complete_from)
     values (?, ?, 'total', 'hard', 1000000000000000000, null, 0)`,
  );
  for (let index = 0; index < count; index++) {
    const id = keyId(index);
    key.run(id, `bench-${index}`, createHash("sha256").update(keyText(index)).digest("hex"));
    budget.run(`key:${id}`, `key:${id}`);
  }
}
