import { writtenKeptMs } from "../../ports/ledger.ts";
import type { Replies, WrittenCommand } from "../commands.ts";
import type { Statements } from "./connection.ts";

/**
 * Stores the value written under an idempotency key if none is stored yet, deletes expired ones, and returns the stored
 * value.
 */
export async function writtenFor(
  db: Statements,
  [, idempotency, written, at]: WrittenCommand,
): Promise<Replies["written"]> {
  if (written !== null) {
    await db.run(
      "delete from written_limits where idempotency in (select idempotency from written_limits where written_at < $1 for update skip locked)",
      [at - writtenKeptMs],
    );
    await db.run(
      "insert into written_limits (idempotency, written, written_at) values ($1, $2, $3) on conflict (idempotency) do nothing",
      [idempotency, written, at],
    );
  }
  const first = await db.row<{ written: string }>("select written from written_limits where idempotency = $1", [
    idempotency,
  ]);
  return { ok: true, written: first?.written ?? null };
}
