import { writtenKeptMs } from "../../ports/ledger.ts";
import type { Replies, WrittenCommand } from "../commands.ts";
import type { Statements } from "./connection.ts";

/** Remembers what was written under an idempotency key, unless something is remembered already, and forgets what is old. */
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
