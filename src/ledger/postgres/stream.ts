import type { Charge } from "../../core/charge.ts";
import type { TimeSpan } from "../../ports/ledger.ts";
import { chargeColumns, chargeOf, type ShownChargeRow } from "../rows/charges.ts";
import type { Database } from "./connection.ts";
import { cursorOf, keepsSnapshot } from "./cursor.ts";

/** Charges per part. */
const partCharges = 500;

/** Reads the charges of a span, oldest first, from one snapshot that ends with the iteration. */
export async function* streamCharges(
  database: Database,
  { since, until }: TimeSpan,
): AsyncGenerator<readonly Charge[]> {
  await using session = await database.session();
  await session.run(keepsSnapshot);
  const charges = await cursorOf<ShownChargeRow>(session, "streamed", {
    sql: `select ${chargeColumns} from charges where admitted_at >= $1 and admitted_at < $2 order by admitted_at, seq`,
    values: [since, until],
  });
  for (let part = await charges.next(partCharges); part.length > 0; part = await charges.next(partCharges))
    yield part.map(chargeOf);
}
