import { writtenKeptMs } from "../../ports/ledger.ts";
import type { Replies, WrittenCommand } from "../commands.ts";
import type { Connection } from "./connection.ts";

/**
 * Stores the value written under an idempotency key if none is stored yet, deletes expired ones, and returns the stored
 * value.
 */
export function writtenFor(db: Connection, [, idempotency, written, at]: WrittenCommand): Replies["written"] {
  if (written !== null) {
    db.prepare("delete from written_limits where written_at < ?").run(at - writtenKeptMs);
    db.prepare(
      "insert into written_limits (idempotency, written, written_at) values (?, ?, ?) on conflict do nothing",
    ).run(idempotency, written, at);
  }
  const first = db.prepare("select written from written_limits where idempotency = ?").pluck().get(idempotency);
  return { ok: true, written: (first as string | undefined) ?? null };
}
