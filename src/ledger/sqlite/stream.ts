import type { Charge } from "../../core/charge.ts";
import type { TimeSpan } from "../../ports/ledger.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import { connectToRead, type Connection } from "./connection.ts";

/** Charges per part. Reading one takes some milliseconds. */
const partCharges = 500;

/**
 * Reads the charges of a span, oldest first, on a separate connection. The open statement is one snapshot; the
 * write-ahead log cannot restart while it is open.
 */
export async function* streamCharges(path: string, span: TimeSpan): AsyncGenerator<readonly Charge[]> {
  const db = connectToRead(path);
  try {
    yield* streamOver(db, span);
  } finally {
    db.close();
  }
}

/** Reads the charges of a span on a connection that does not write meanwhile. */
export async function* streamOver(db: Connection, { since, until }: TimeSpan): AsyncGenerator<readonly Charge[]> {
  const rows = db
    .prepare(
      `select ${chargeColumns} from charges where admitted_at >= ? and admitted_at < ? order by admitted_at, seq`,
    )
    .safeIntegers()
    .iterate(since, until) as IterableIterator<ShownChargeRow>;
  let part: Charge[] = [];
  for (const row of rows) {
    part.push(chargeOf(row));
    if (part.length < partCharges) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}
